//! Comparisons of two arrays.

use crate::base::array::{Array, Data, with_wide};
use crate::base::dtype::{AbstractArray, ArrayElement, DType};
use crate::primitives::elementwise::Comparison;

/// Compares each pair of elements of two arrays of the same shape. The result has the dtype bool.
pub fn compare(comparison: Comparison, left: &Array, right: &Array) -> Array {
    Array {
        info: AbstractArray {
            dtype: DType::Bool,
            shape: left.info.shape.clone(),
        },
        data: Data::Bool(evaluated(comparison, left, right)),
    }
}

#[allow(
    clippy::float_cmp,
    clippy::bool_comparison,
    reason = "comparing is what this does, of all element types alike"
)]
fn evaluated(comparison: Comparison, left: &Array, right: &Array) -> Vec<bool> {
    fn run<T: ArrayElement>(
        left: &Array,
        right: &Array,
        holds: impl Fn(T, T) -> bool,
    ) -> Vec<bool> {
        left.elements::<T>()
            .iter()
            .zip(right.elements::<T>())
            .map(|(&l, &r)| holds(l, r))
            .collect()
    }
    with_wide!(left.dtype(), T => match comparison {
        Comparison::Eq => run::<T>(left, right, |l, r| l == r),
        Comparison::Ne => run::<T>(left, right, |l, r| l != r),
        Comparison::Lt => run::<T>(left, right, |l, r| l < r),
        Comparison::Le => run::<T>(left, right, |l, r| l <= r),
        Comparison::Gt => run::<T>(left, right, |l, r| l > r),
        Comparison::Ge => run::<T>(left, right, |l, r| l >= r),
    })
}
