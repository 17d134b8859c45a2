//! Programs over several devices of a plugin, compared with `vmap` on the host.

#![allow(
    clippy::float_cmp,
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    reason = "a test says what it checks in its name, and fails by panicking"
)]

mod axes;
mod checkpoints;
mod collectives;
mod errors;
mod gradients;
mod layers;
mod nans;
mod partitions;
mod pictures;
mod placement;
mod sharding_errors;
mod shards;

use std::sync::OnceLock;

use pytree_pjrt::{Client, Options};
use pytree_transform::Tensor;
use pytree_transform::device::Mesh;

/// Returns a client with eight devices, or prints that the test is skipped.
fn client() -> Option<&'static Client> {
    static CLIENT: OnceLock<Client> = OnceLock::new();
    let path = crate::common::plugin()?;
    Some(CLIENT.get_or_init(|| {
        Client::load_with(&path, &Options::new().set("cpu_device_count", 8)).unwrap()
    }))
}

/// Returns a mesh with these axes, or prints that the test is skipped.
fn mesh<const N: usize>(axes: [(&str, usize); N]) -> Option<Mesh> {
    client().map(|client| Mesh::new(client, axes))
}

/// Returns numbers without a pattern, between -1 and 1.
fn numbers(shape: &[usize]) -> Tensor {
    let count = shape.iter().product::<usize>();
    let number = |at: usize| ((at * 7919 + 13) % 1009) as f32 / 504.5 - 1.0;
    Tensor::new(shape, (0..count).map(number).collect::<Vec<f32>>())
}

/// Checks that two tensors have the same shape and nearly the same elements.
#[track_caller]
fn assert_near(found: &Tensor, expected: &Tensor, tolerance: f32) {
    assert_eq!(found.info(), expected.info());
    let found = pytree_transform::device::device_put(found, pytree_transform::device::Device::HOST);
    let distance = (&found - expected).abs().max().item::<f32>();
    assert!(
        distance <= tolerance,
        "off by {distance}: {found} and {expected}"
    );
}

/// Returns the message of a panic.
fn panic_of<R>(function: impl FnOnce() -> R) -> String {
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(function())));
    *outcome.unwrap_err().downcast::<String>().unwrap()
}
