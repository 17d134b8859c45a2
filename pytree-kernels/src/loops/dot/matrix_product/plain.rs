//! Products by plain loops.

use super::loops::{LoopAxis, Loops};
use super::stored::{Factor, Stored, Write};
use crate::base::instructions::load;
use crate::base::target::Target;

/// The greatest number of sums that are computed side by side. Each of them adds its terms one after the other.
const SIDE_BY_SIDE: usize = 16;

/// Computes a product of integers, or a product that is too small for other kernels.
pub(super) fn plain_product<T: Stored>(
    loops: &Loops,
    left: &[T],
    right: &[T],
    mut target: Target<'_, T>,
    write: Write,
) {
    let Loops {
        rows,
        columns,
        depth,
        ..
    } = *loops;
    let (outer, inner) = if columns.length < rows.length {
        (columns, rows)
    } else {
        (rows, columns)
    };
    for at in 0..outer.length {
        for first in (0..inner.length).step_by(SIDE_BY_SIDE) {
            let count = SIDE_BY_SIDE.min(inner.length - first);
            let (outer_at, inner_at) = (outer.offsets(at), inner.offsets(first));
            let [l, r, t] = [0, 1, 2].map(|place| outer_at[place] + inner_at[place]);
            let sums = sums(&left[l..], &right[r..], [inner, depth], count);
            for (number, &sum) in sums[..count].iter().enumerate() {
                write.sum(sum, &mut target.slice_mut(t + number * inner.result, 1)[0]);
            }
        }
    }
}

/// Computes at most [`SIDE_BY_SIDE`] sums along an axis.
fn sums<T: Stored>(
    left: &[T],
    right: &[T],
    [axis, depth]: [LoopAxis; 2],
    count: usize,
) -> [T::Sum; SIDE_BY_SIDE] {
    let mut sums = [T::Sum::default(); SIDE_BY_SIDE];
    let (factors, rows) = ((left, depth.left), (right, depth.right));
    // Elements after a row may be those of the next row.
    let fits = |width: usize| right.len() >= (depth.length - 1) * depth.right + width;
    match (axis.left, axis.right, count) {
        (0, 1, 9..) if fits(16) => add_rows::<T, 16>(factors, rows, depth.length, &mut sums),
        (0, 1, 5..=8) if fits(8) => add_rows::<T, 8>(factors, rows, depth.length, &mut sums),
        (0, 1, 3..=4) if fits(4) => add_rows::<T, 4>(factors, rows, depth.length, &mut sums),
        (.., 0..3) => {
            for (number, sum) in sums[..count].iter_mut().enumerate() {
                let (left, right) = (&left[number * axis.left..], &right[number * axis.right..]);
                for step in 0..depth.length {
                    let (factor, other) = (left[step * depth.left], right[step * depth.right]);
                    *sum = sum.plus_product(factor.wide(), other.wide());
                }
            }
        }
        _ => {
            for step in 0..depth.length {
                let (left, right) = (&left[step * depth.left..], &right[step * depth.right..]);
                for (number, sum) in sums[..count].iter_mut().enumerate() {
                    let (factor, other) = (left[number * axis.left], right[number * axis.right]);
                    *sum = sum.plus_product(factor.wide(), other.wide());
                }
            }
        }
    }
    sums
}

/// Adds multiples of the first `N` elements of rows.
fn add_rows<T: Stored, const N: usize>(
    (factors, factor_stride): (&[T], usize),
    (rows, row_stride): (&[T], usize),
    count: usize,
    sums: &mut [T::Sum],
) {
    let mut totals = [T::Sum::default(); N];
    for step in 0..count {
        let factor = factors[step * factor_stride].wide();
        let row: [T; N] = load(rows, step * row_stride);
        for at in 0..N {
            totals[at] = totals[at].plus_product(factor, row[at].wide());
        }
    }
    sums[..N].copy_from_slice(&totals);
}
