//! The tests of pytree-pjrt that may share a process and a client.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::type_complexity,
    missing_docs,
    unreachable_pub,
    reason = "a test says what it checks in its name, and fails by panicking"
)]

mod common;
mod exports;
mod mesh;
mod plugin;
mod tensors;
