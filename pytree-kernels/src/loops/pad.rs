//! Padding of arrays. Negative padding removes elements.

use pytree_base::bug::expect_some;

use crate::base::array::{Array, reused_bits, row_major_strides};
use crate::base::bits::{Bits, with_bits};
use crate::base::shape::{PerAxis, Shape};
use crate::loops::strided::{rows_of_part, share_parts};

/// Pads each axis with `low` values before the elements, `high` values after them, and `interior` values between
/// neighbours. A negative `low` or `high` removes elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pad {
    /// The numbers of values before the elements of each axis.
    pub low: PerAxis<isize>,
    /// The numbers of values after the elements.
    pub high: PerAxis<isize>,
    /// The numbers of values between neighbouring elements.
    pub interior: PerAxis,
}

/// The elements along one axis of the operand, and their positions in the result.
#[derive(Clone, Copy)]
struct PaddedAxis {
    /// The position of the first element that is not removed, and the number of elements that are not removed.
    first: usize,
    count: usize,
    /// The position of the first remaining element on the axis of the result, and the distance between remaining neighbours.
    place: usize,
    step: usize,
    /// The strides of the axis in the operand and in the result.
    strides: [usize; 2],
}

impl PaddedAxis {
    /// Returns the offset in the result of a remaining element. The product does not overflow, because the element is in the result.
    fn offset(self, index: usize) -> usize {
        (self.place + index * self.step) * self.strides[1]
    }

    /// Returns the axis of a part of the result: `rows` positions, beginning with `start`.
    fn part(self, start: usize, rows: usize) -> Self {
        let before = |position: usize| {
            let index = position.saturating_sub(self.place).div_ceil(self.step);
            index.min(self.count)
        };
        let skipped = before(start);
        let count = before(start + rows) - skipped;
        Self {
            first: self.first + skipped,
            count,
            place: if count == 0 {
                0
            } else {
                self.place + skipped * self.step - start
            },
            ..self
        }
    }
}

impl Pad {
    fn length(&self, axis: usize, length: usize) -> Option<usize> {
        let between = length.saturating_sub(1).checked_mul(self.interior[axis])?;
        let spread = length.checked_add(between)? as i128;
        // The transpose pads by the negated numbers, and the least `isize` cannot be negated.
        let paddings = [self.low[axis], self.high[axis]];
        if isize::try_from(spread).is_err() || paddings.contains(&isize::MIN) {
            return None;
        }
        usize::try_from(spread + paddings[0] as i128 + paddings[1] as i128).ok()
    }

    /// Returns the shape of the result, or `None` if the padding does not fit the operand or memory.
    pub fn result_shape(&self, operand: &[usize]) -> Option<Shape> {
        operand
            .iter()
            .enumerate()
            .map(|(axis, &length)| self.length(axis, length))
            .collect()
    }

    /// Pads an array with the only element of `value`.
    pub fn evaluate(&self, operand: &Array, value: &Array) -> Array {
        let shape = self.result_shape(operand.shape());
        let shape = expect_some(shape, "padding that the shape rule accepts");
        let axes = self.padded_axes(operand.shape(), &shape);
        with_bits!(operand.dtype(), T => pad_array::<T>(operand, value.bits::<T>()[0], &shape, &axes))
    }

    fn padded_axes(&self, operand: &[usize], result: &[usize]) -> Vec<PaddedAxis> {
        let (strides, steps) = (row_major_strides(operand), row_major_strides(result));
        let axis = |axis: usize| {
            let (low, step) = (self.low[axis], self.interior[axis] + 1);
            let first = low.min(0).unsigned_abs().div_ceil(step);
            let place = low.max(0).cast_unsigned() + (first * step - low.min(0).unsigned_abs());
            let room = result[axis].saturating_sub(place);
            let count = operand[axis].saturating_sub(first).min(room.div_ceil(step));
            PaddedAxis {
                first,
                count,
                place,
                step,
                strides: [strides[axis], steps[axis]],
            }
        };
        (0..operand.len()).map(axis).collect()
    }
}

/// Writes the elements that are not removed to their positions in the result.
fn place<T: Copy>(source: &[T], target: &mut [T], axes: &[PaddedAxis]) {
    let Some((axis, inner)) = axes.split_first() else {
        target[0] = source[0];
        return;
    };
    if axis.count == 0 {
        return;
    }
    let stride = axis.strides[0];
    if inner.is_empty() {
        let source = &source[axis.first..][..axis.count];
        let target = &mut target[axis.place..];
        if axis.step == 1 {
            return target[..axis.count].copy_from_slice(source);
        }
        let pairs = target.iter_mut().step_by(axis.step).zip(source);
        return pairs.for_each(|(target, &element)| *target = element);
    }
    for index in 0..axis.count {
        place(
            &source[(axis.first + index) * stride..],
            &mut target[axis.offset(index)..],
            inner,
        );
    }
}

/// Pads an array in parts, which threads share. A part has some positions of the first axis that has several.
fn pad_array<T: Bits>(operand: &Array, value: T, shape: &Shape, axes: &[PaddedAxis]) -> Array {
    let mut target = reused_bits(operand.dtype(), shape.iter().product());
    let is_removed = axes.iter().any(|axis| axis.count == 0);
    let single = shape.iter().take_while(|&&length| length == 1).count();
    let (single, axes) = axes.split_at(single);
    let start: usize = single.iter().map(|axis| axis.first * axis.strides[0]).sum();
    let size = axes.first().map_or(1, |axis| axis.strides[1].max(1));
    let rows = rows_of_part::<T>(size);
    share_parts(&mut target, size, rows, &|row, target| {
        target.fill(value);
        if is_removed {
            return;
        }
        let mut axes = axes.to_vec();
        if let Some(first) = axes.first_mut() {
            *first = first.part(row, target.len() / size);
        }
        place(&operand.bits()[start..], target, &axes);
    });
    Array::from_bits(operand.dtype(), shape, target)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Results of several parts agree with a loop over all positions of the result.
    #[test]
    fn parts_of_padded_arrays_join() {
        for (shape, paddings) in [
            (vec![30_000], vec![(3, -5, 2)]),
            (vec![60_000], vec![(-7, 9, 1)]),
            (vec![1, 300, 70], vec![(0, 0, 0), (-2, 4, 1), (5, -3, 2)]),
            (vec![400, 3, 50], vec![(2, -1, 2), (1, 0, 0), (0, 2, 0)]),
            (vec![2, 20_000], vec![(1, 0, 3), (0, 1, 0)]),
            (vec![20_000], vec![(-30_000, 30_000, 0)]),
        ] {
            let pad = Pad {
                low: paddings.iter().map(|padding| padding.0).collect(),
                high: paddings.iter().map(|padding| padding.1).collect(),
                interior: paddings.iter().map(|padding| padding.2).collect(),
            };
            let count: usize = shape.iter().product();
            let elements: Vec<i32> = (1..).take(count).collect();
            let operand = Array::new(&shape[..], elements.clone());
            let found = pad.evaluate(&operand, &Array::new([], vec![0]));
            let strides = row_major_strides(&shape);
            let expected = |position: usize| {
                let mut rest = position;
                let mut at = 0;
                for (axis, &(low, _, interior)) in paddings.iter().enumerate().rev() {
                    let length = found.shape()[axis];
                    let place = (rest % length).cast_signed() - low;
                    rest /= length;
                    let step = interior.cast_signed() + 1;
                    if place < 0 || place % step != 0 || place / step >= shape[axis].cast_signed() {
                        return 0;
                    }
                    at += (place / step).cast_unsigned() * strides[axis];
                }
                elements[at]
            };
            let expected: Vec<i32> = (0..found.info.len()).map(expected).collect();
            assert!(found.elements::<i32>() == expected, "{shape:?} {pad:?}");
        }
    }
}
