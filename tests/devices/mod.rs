//! Programs on devices, with an engine that counts what it does and refuses to be used wrongly.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::type_complexity,
    missing_docs,
    unreachable_pub,
    reason = "a test says what it checks in its name, and fails by panicking"
)]

mod captured;
mod compiled;
mod errors;
mod mixing;
mod mock;
mod newcomer;
mod operations;
mod placement;
mod training;
mod transformations;

/// Returns the message of a panic.
fn panic_of<R>(function: impl FnOnce() -> R) -> String {
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(function())));
    *outcome.unwrap_err().downcast::<String>().unwrap()
}
