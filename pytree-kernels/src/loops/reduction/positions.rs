//! The positions of extrema.

use pytree_base::bug::expect_some;

use super::pass::{PER_NANOSECOND, Pass, run};
use super::reduce::{Extremum, extrema};
use crate::base::array::Array;
use crate::base::combine::{Combine, Max, Min, Ordered};
use crate::base::dtype::{AbstractArray, DType, with_type, with_wide};
use crate::base::instructions::leaf_of;
use crate::base::narrow::is_narrow;
use crate::base::shape::without_axes;
use crate::base::threads::{self, share_rows};

/// Returns the positions of the first extrema along an axis, as i32. Narrow dtypes are accepted.
pub fn argument(extremum: Extremum, operand: &Array, axis: usize) -> Array {
    let shape = operand.shape();
    let (length, inner) = (shape[axis], shape[axis + 1..].iter().product());
    let result = AbstractArray::new(DType::I32, without_axes(shape, &[axis]));
    let mut result = Array::reused(&result);
    if is_narrow(operand.dtype()) {
        let extrema = extrema(extremum, operand, operand.dtype(), &[axis]);
        with_type!(operand.dtype(), T => {
            let (elements, extrema) = (operand.elements::<T>(), extrema.elements());
            first_positions(Pass::new(length, inner), elements, extrema, result.elements_mut());
        });
        return result;
    }
    with_wide!(operand.dtype(), T => {
        positions::<T>(extremum, Pass::new(length, inner), operand.elements(), result.elements_mut());
    });
    result
}

/// Writes the positions of the first extrema of a pass.
pub(crate) fn positions<T: Ordered>(
    extremum: Extremum,
    pass: Pass,
    elements: &[T],
    positions: &mut [i32],
) {
    match extremum {
        Extremum::Max => arguments::<T, Max>(pass, elements, positions, T::gt),
        Extremum::Min => arguments::<T, Min>(pass, elements, positions, T::lt),
    }
}

/// Writes the first position of each extremum, or of NaN, in its row or column. Elements of a narrow dtype need not be widened for
/// that.
fn first_positions<T: Copy + PartialEq>(
    Pass { length, inner, .. }: Pass,
    elements: &[T],
    extrema: &[T],
    positions: &mut [i32],
) {
    #[allow(clippy::eq_op, reason = "only NaN differs from itself")]
    let is_first = |element: T, extremum: T| element == extremum || element != element;
    let (size, inner) = ((length * inner).max(1), inner.max(1));
    let extrema = extrema.chunks_exact(inner);
    let blocks = elements.chunks_exact(size).zip(extrema);
    for (positions, (block, extrema)) in positions.chunks_exact_mut(inner).zip(blocks) {
        if let ([position], [extremum]) = (&mut *positions, extrema) {
            let mut row = block.iter().zip(0..);
            let found = row.find(|(element, _)| is_first(**element, *extremum));
            *position = expect_some(found, "the extremum to be an element of its row").1;
            continue;
        }
        positions.fill(-1);
        for (row, at) in block.chunks_exact(inner).zip(0..) {
            for ((position, &extremum), &element) in positions.iter_mut().zip(extrema).zip(row) {
                if *position < 0 && is_first(element, extremum) {
                    *position = at;
                }
            }
        }
    }
}

/// Writes the positions of the first extrema, which `C` returns.
fn arguments<T: Ordered, C: Combine<T>>(
    Pass { length, inner, .. }: Pass,
    elements: &[T],
    positions: &mut [i32],
    better: impl Fn(&T, &T) -> bool + Sync,
) {
    let (size, inner) = ((length * inner).max(1), inner.max(1));
    let count = (positions.len() / inner).div_ceil(threads::count()).max(1);
    let nanoseconds = elements.len() / PER_NANOSECOND;
    share_rows(nanoseconds, positions, inner, count, &|first, positions| {
        let mut blocks = elements[first * size..].chunks_exact(size);
        // These are loops because each closure of an iterator would be compiled again.
        for positions in positions.chunks_exact_mut(inner) {
            let Some(block) = blocks.next() else { return };
            match positions {
                [position] => *position = argument_of_row::<T, C>(block),
                _ => arguments_of_columns(block, positions, &better),
            }
        }
    });
}

/// Returns the position of the first extremum of a row. Computes the extremum first and then searches for it, which is
/// faster than one loop that does both.
fn argument_of_row<T: Ordered, C: Combine<T>>(row: &[T]) -> i32 {
    let mut extremum = C::START;
    let result = std::slice::from_mut(&mut extremum);
    run::<T, C>(Pass::new(row.len(), 1), row, result);
    let found = row
        .iter()
        .position(|&element| element == extremum || element.is_nan());
    let position = expect_some(found, "the extremum to be an element of its row");
    expect_some(i32::try_from(position).ok(), "a position that i32 holds")
}

/// The number of columns whose extrema are found together.
const COLUMNS: usize = 64;

/// Finds the position of the first extremum of each column of `rows`.
fn arguments_of_columns<T: Ordered>(
    rows: &[T],
    positions: &mut [i32],
    better: &impl Fn(&T, &T) -> bool,
) {
    positions.fill(0);
    let width = positions.len();
    for (number, positions) in positions.chunks_mut(COLUMNS).enumerate() {
        let first = number * COLUMNS;
        leaf_of! { T =>
            let mut champions = [T::LEAST; COLUMNS];
            for (row, place) in rows.chunks_exact(width).zip(0..) {
                let row = &row[first..];
                for ((champion, best), &element) in champions.iter_mut().zip(&mut *positions).zip(row) {
                    // Without branches, the compiler computes many columns at a time.
                    let is_better = (place == 0)
                        | better(&element, champion)
                        | (element.is_nan() & !champion.is_nan());
                    *champion = if is_better { element } else { *champion };
                    *best = if is_better { place } else { *best };
                }
            }
        }
    }
}
