//! The features that join other crates of the ecosystem.

#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a test says what it checks in its name, and fails by panicking"
)]

mod data;
mod spans;
mod statics;
