//! The tests of pytree-nn, in one program, so that it is linked once.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::type_complexity,
    missing_docs,
    unreachable_pub,
    reason = "a test says what it checks in its name, and fails by panicking"
)]

mod extremes;
mod goldens;
mod intermediates;
mod layers;
mod library;
mod optimizers;
#[path = "../../tests/panics.rs"]
mod panics;
mod parts;
mod rngs;
mod support;
mod training;
