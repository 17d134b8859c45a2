//! Branches and loops: laws, compositions, and the messages for mistakes.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::type_complexity,
    missing_docs,
    unreachable_pub,
    reason = "a test says what it checks in its name, and fails by panicking"
)]

mod custom;
mod laws;
mod mistakes;
mod recursive_rules;

use pytree_transform::Tensor;

/// Asserts that two tensors agree within rounding errors.
#[track_caller]
pub fn close(what: &str, found: &Tensor, expected: &Tensor) {
    assert_eq!(found.info(), expected.info(), "{what}");
    let (found, expected) = (found.to_vec::<f64>(), expected.to_vec::<f64>());
    for (found, expected) in found.iter().zip(&expected) {
        let close = (found - expected).abs() <= 1e-11 * expected.abs().max(1.0);
        assert!(close, "{what}: found {found}, expected {expected}");
    }
}
