//! What `spmd` refuses and reports, on a mesh of the host alone.

#![allow(
    clippy::float_cmp,
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    reason = "a test says what it checks in its name, and fails by panicking"
)]

mod agreement;
mod checks;
mod messages;

use std::panic::{AssertUnwindSafe, catch_unwind};

use pytree_transform::device::{Device, Mesh};

/// Returns a mesh of the host alone. Its rules do not depend on the number of devices.
fn host<const N: usize>(names: [&str; N]) -> Mesh {
    Mesh::new(&Device::HOST, names.map(|name| (name, 1)))
}

/// Returns the message of a panic.
fn panic_of<R>(function: impl FnOnce() -> R) -> String {
    let outcome = catch_unwind(AssertUnwindSafe(|| drop(function())));
    *outcome.unwrap_err().downcast::<String>().unwrap()
}
