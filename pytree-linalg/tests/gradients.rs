//! The gradient table of linear algebra, with the laws of `pytree-transform/tests/gradients`.

#[path = "../../pytree-transform/tests/gradients/batches.rs"]
mod batches;
#[path = "../../pytree-transform/tests/gradients/case.rs"]
mod case;
#[path = "../../pytree-transform/tests/gradients/derivatives.rs"]
mod derivatives;
#[path = "../../pytree-transform/tests/gradients/laws.rs"]
mod laws;
#[path = "../../tests/stablehlo/record.rs"]
mod record;
#[allow(dead_code, reason = "the table of pytree-transform uses all of it")]
#[path = "../../pytree-transform/tests/gradients/sample.rs"]
mod sample;
mod table;

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
fn table_covers_every_primitive() {
    let names = names_in_the_sources();
    assert!(names.len() >= 9, "{names:?}");
    assert_covered(names, String::new);
}

#[test]
fn every_primitive_is_lowered_and_recorded() {
    assert_lowered(&[], &["eigh", "svd"]);
}
