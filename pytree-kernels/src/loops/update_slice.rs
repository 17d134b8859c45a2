//! Updates of a window of an array.

use std::sync::Arc;

use crate::base::array::{Array, row_major_strides};
use crate::base::bits::with_bits;

/// Writes `update` over a window of `operand`, which begins at `starts`. The window must be within the array. Reuses the memory of
/// `operand` if it has no other handle.
pub fn update_slice(operand: Arc<Array>, update: &Array, starts: &[usize]) -> Array {
    let shape = operand.info.shape.clone();
    let lengths = update.shape();
    if update.info.is_empty() {
        return Arc::unwrap_or_clone(operand);
    }
    // Behind the last axis that is not updated as a whole, the elements of both are in the same order without gaps.
    let partial = (0..shape.len())
        .rev()
        .find(|&axis| lengths[axis] != shape[axis]);
    let outer = &lengths[..partial.unwrap_or_default()];
    let strides = row_major_strides(&shape);
    let first: usize = starts
        .iter()
        .zip(&strides)
        .map(|(start, stride)| start * stride)
        .sum();
    let block: usize = lengths[outer.len()..].iter().product();
    with_bits!(update.dtype(), T => {
        let mut bits = Array::into_bits::<T>(operand);
        for (number, part) in update.bits::<T>().chunks_exact(block).enumerate() {
            let (mut rest, mut place) = (number, first);
            for (&length, &stride) in outer.iter().zip(&strides).rev() {
                place += rest % length * stride;
                rest /= length;
            }
            bits[place..place + block].copy_from_slice(part);
        }
        Array::from_bits(update.dtype(), &shape, bits)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_window_is_written_at_its_place() {
        let operand = Arc::new(Array::new([3, 4, 2], (0..24).collect::<Vec<i32>>()));
        for [height, width, depth] in [
            [1, 2, 2],
            [2, 4, 2],
            [3, 2, 1],
            [3, 4, 2],
            [1, 1, 1],
            [2, 3, 0],
        ] {
            for starts in [[0, 0, 0], [3 - height, 4 - width, 2 - depth]] {
                let count = height * width * depth;
                let update = Array::new([height, width, depth], vec![-1; count]);
                let result = update_slice(Arc::clone(&operand), &update, &starts);
                let expected = (0..24_usize).map(|at| {
                    let place = [at / 8, at / 2 % 4, at % 2];
                    let ends = [height, width, depth];
                    let is_inside = (0..3).all(|axis| {
                        (starts[axis]..starts[axis] + ends[axis]).contains(&place[axis])
                    });
                    if is_inside {
                        -1
                    } else {
                        i32::try_from(at).unwrap()
                    }
                });
                assert_eq!(result.elements::<i32>(), expected.collect::<Vec<_>>());
            }
        }
    }
}
