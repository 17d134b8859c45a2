//! Named axes: in fields, in functions, and in checks of whole models.

#![allow(
    clippy::unwrap_used,
    reason = "a test says what it checks in its name, and fails by panicking"
)]

mod changes;
mod functions;
mod models;
mod roles;
mod stacked;
mod suspects;
