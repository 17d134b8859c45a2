//! Products by plain loops.

use super::loops::Loops;
use super::stored::{Factor, Stored, Write};
use crate::base::target::Target;

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
    for row in 0..rows.length {
        for column in 0..columns.length {
            let mut sum = T::Sum::default();
            for step in 0..depth.length {
                let factor = left[row * rows.left + step * depth.left];
                let other = right[step * depth.right + column * columns.right];
                sum = sum.plus_product(factor.wide(), other.wide());
            }
            let position = row * rows.result + column * columns.result;
            write.sum(sum, &mut target.slice_mut(position, 1)[0]);
        }
    }
}
