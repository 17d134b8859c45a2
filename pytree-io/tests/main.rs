//! The tests of pytree-io, in one program, so that it is linked once.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::type_complexity,
    missing_docs,
    unreachable_pub,
    reason = "a test says what it checks in its name, and fails by panicking"
)]

mod checkpoints;
mod data;
mod exports;
#[path = "../../tests/panics.rs"]
mod panics;
#[allow(dead_code, reason = "the tests of pytree-nn use all of it")]
#[path = "../../pytree-nn/tests/support/mod.rs"]
mod support;
