//! The gradient table: every primitive and every derived operation, differentiated in each supported way.
//!
//! A case is a function of tensors with a sampler inside its domain. Its derivatives of orders 1 and 2 along one
//! random direction are compared with finite differences, with each other in every order of forward and reverse mode,
//! and with the derivatives under `jit` and `vmap`; see `gradients/laws.rs`. The last tests read the names of all primitives from the
//! sources and check that the table records each of them.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::type_complexity,
    missing_docs,
    unreachable_pub,
    reason = "a test says what it checks in its name, and fails by panicking"
)]

mod batches;
mod case;
mod collectives;
mod control;
mod derivatives;
mod halves;
mod laws;
#[path = "../../tests/stablehlo/record.rs"]
mod record;
mod sample;
mod table;

use pytree_transform::{Tensor, grad, jit, jvp};

use crate::gradients::laws::{assert_covered, assert_lowered, names_in_the_sources};

/// The names that `tests/stablehlo/record.rs` uses, which tests of two packages share.
mod library {
    pub use pytree_transform::{DType, StableHlo, Tensor, bf16, f16, jit};

    /// Returns no device: these tests record programs, and run them on the host.
    pub fn device() -> Option<pytree_transform::device::Device> {
        None
    }
}

#[test]
fn stop_gradient_makes_a_constant() {
    let x = Tensor::from([1.5_f64, -0.5]);
    let f = |x: &Tensor| (x.square().stop_gradient() * x).sum();
    assert_eq!(grad(f)(&x), x.square());
    assert_eq!(jvp(f, &x, &x).1, x.powi(3).sum());
    assert_eq!(grad(jit(move |x: Tensor| f(&x)))(&x), x.square());
    let slope_again = grad(|x: &Tensor| grad(f)(x).sum())(&x);
    assert_eq!(slope_again, Tensor::zeros_like(&x));
}

#[test]
fn table_covers_every_primitive() {
    let names = names_in_the_sources();
    assert!(names.len() >= 40, "{names:?}");
    assert_covered(names, || collectives::OF_EXAMPLES.take());
}

#[test]
fn every_primitive_is_lowered_and_recorded() {
    // `tests/stablehlo/replicas.rs` lowers collectives.
    let elsewhere = [
        "psum",
        "pmax",
        "all_gather",
        "axis_index",
        "ppermute",
        "all_to_all",
        "reduce_scatter",
    ];
    assert_lowered(&elsewhere, &[]);
}
