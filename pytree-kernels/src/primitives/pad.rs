//! Padding of arrays. Negative padding removes elements.

use pytree_base::bug::expect_some;

use crate::base::array::{Array, reused_bits, row_major_strides};
use crate::base::bits::{Bits, with_bits};
use crate::base::shape::{PerAxis, Shape};

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
struct PaddedAxis {
    /// The position of the first element that is not removed, and the number of elements that are not removed.
    first: usize,
    count: usize,
    /// The offset of the first remaining element in the result, and the distance between remaining neighbours.
    place: usize,
    step: usize,
    stride: usize,
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
                // If a product overflows, at most one element remains on the axis, and the product is not used.
                place: place.wrapping_mul(steps[axis]),
                step: step.wrapping_mul(steps[axis]),
                stride: strides[axis],
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
    let (source, target) = (
        &source[axis.first * axis.stride..],
        &mut target[axis.place..],
    );
    if inner.is_empty() && axis.step == 1 {
        target[..axis.count].copy_from_slice(&source[..axis.count]);
        return;
    }
    for index in 0..axis.count {
        place(
            &source[index * axis.stride..],
            &mut target[index * axis.step..],
            inner,
        );
    }
}

fn pad_array<T: Bits>(operand: &Array, value: T, shape: &Shape, axes: &[PaddedAxis]) -> Array {
    let mut target = reused_bits(operand.dtype(), shape.iter().product());
    target.fill(value);
    if !axes.iter().any(|axis| axis.count == 0) {
        place(operand.bits::<T>(), &mut target, axes);
    }
    Array::from_bits(operand.dtype(), shape, target)
}
