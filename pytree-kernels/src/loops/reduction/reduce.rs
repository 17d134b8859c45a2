//! Sums, products, extrema and bitwise reductions.

use super::groups::folded;
use super::pass::run;
use super::truth::truths;
use crate::base::array::Array;
use crate::base::combine::{And, Combine, Max, Min, Number, Or, Prod, Sum, with_number};
use crate::base::dtype::{DType, with_wide};
use crate::base::narrow::wide;

/// How a reduction combines two elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// The maximum, or NaN if any element is NaN.
    Max,
    /// The minimum, or NaN if any element is NaN.
    Min,
    /// The product.
    Prod,
    /// The bitwise conjunction.
    And,
    /// The bitwise disjunction.
    Or,
}

/// Selects the maximum or the minimum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extremum {
    /// The maximum.
    Max,
    /// The minimum.
    Min,
}

/// Returns the sums over some axes of an operand that is converted to a dtype. Narrow dtypes are accepted here and in [`reduce`].
pub fn sum(operand: &Array, dtype: DType, axes: &[usize]) -> Array {
    with_number!(wide(dtype), T => combined::<T, Sum>(operand, dtype, axes))
}

/// Reduces the numbers of an array.
fn combined<T: Number, C: Combine<T>>(operand: &Array, dtype: DType, axes: &[usize]) -> Array {
    folded(operand, dtype, axes, &|pass, operand, result| {
        run::<T, C>(pass, T::of(operand), T::of_mut(result));
    })
}

/// Reduces an array to its greatest or least elements. Those of bools are their disjunction and conjunction.
pub(super) fn extrema(extremum: Extremum, operand: &Array, dtype: DType, axes: &[usize]) -> Array {
    with_wide!(wide(dtype), T => match extremum {
        Extremum::Max => folded(operand, dtype, axes, &|pass, operand, result| {
            run::<T, Max>(pass, operand.elements(), result.elements_mut());
        }),
        Extremum::Min => folded(operand, dtype, axes, &|pass, operand, result| {
            run::<T, Min>(pass, operand.elements(), result.elements_mut());
        }),
    })
}

/// Returns a reduction over some axes of an operand that is converted to a dtype.
pub fn reduce(reduction: Reduction, operand: &Array, dtype: DType, axes: &[usize]) -> Array {
    let extrema = |extremum| extrema(extremum, operand, dtype, axes);
    match (reduction, wide(dtype)) {
        (Reduction::And | Reduction::Or, DType::Bool) => {
            let is_all = reduction == Reduction::And;
            folded(operand, dtype, axes, &|pass, operand, result| {
                truths(is_all, pass, operand, result.elements_mut());
            })
        }
        (Reduction::Max, _) => extrema(Extremum::Max),
        (Reduction::Min, _) => extrema(Extremum::Min),
        (Reduction::Prod, wide) => with_number!(wide, T => {
            combined::<T, Prod>(operand, dtype, axes)
        }),
        (Reduction::And, DType::I64) => combined::<i64, And>(operand, dtype, axes),
        (Reduction::And, _) => combined::<i32, And>(operand, dtype, axes),
        (Reduction::Or, DType::I64) => combined::<i64, Or>(operand, dtype, axes),
        (Reduction::Or, _) => combined::<i32, Or>(operand, dtype, axes),
    }
}
