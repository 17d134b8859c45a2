//! Layers as users have them: in models, under transformations, and with mistakes.

#![allow(
    clippy::unwrap_used,
    clippy::float_cmp,
    reason = "a test may panic, and says which figures are exact"
)]

mod attention;
mod convolution;
mod dtypes;
mod embedding;
mod modes;
mod normalization;
mod recurrent;

use pytree_transform::Tensor;

/// Asserts that no elements differ by more than the rounding of a few operations in f32.
#[track_caller]
fn assert_near(found: &Tensor, expected: &Tensor) {
    assert_eq!(found.info(), expected.info());
    let difference = (found - expected).abs().max().item::<f32>();
    assert!(
        difference <= 1e-5,
        "off by {difference}: found {found}, expected {expected}"
    );
}

/// The message of a panic.
fn panic_message<R>(function: impl FnOnce() -> R) -> String {
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(function())));
    let payload = outcome.unwrap_err();
    payload.downcast_ref::<String>().unwrap().clone()
}
