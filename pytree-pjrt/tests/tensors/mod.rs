//! Tensors, compiled functions and models on a device of a plugin.

#![allow(
    clippy::float_cmp,
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    reason = "a test says what it checks in its name, and fails by panicking"
)]

mod compiled;
mod elements;
mod errors;
mod training;
mod transformations;

use pytree_transform::device::Device;

/// Returns the first device, or prints that the test is skipped.
fn device() -> Option<Device> {
    crate::common::client().map(Device::from)
}

/// Returns the message of a panic.
fn panic_of<R>(function: impl FnOnce() -> R) -> String {
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(function())));
    *outcome.unwrap_err().downcast::<String>().unwrap()
}
