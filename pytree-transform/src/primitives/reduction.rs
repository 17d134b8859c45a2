//! The kernels of reductions.

use crate::array::Array;
use crate::dtype::{DType, TensorElement};
use crate::primitives::reduce::without_axes;
use crate::primitives::shape::reused;

/// Elements that can be added.
pub(super) trait Addend: TensorElement {
    fn plus(self, other: Self) -> Self;
}

macro_rules! addends {
    ($($float:ty),*; $($integer:ty),*) => {
        $(impl Addend for $float {
            fn plus(self, other: Self) -> Self {
                self + other
            }
        })*
        $(impl Addend for $integer {
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
        })*
    };
}
addends!(f32, f64; i32, i64, u32);

/// Elements with a least value, from which a maximum starts.
pub(super) trait Ordered: TensorElement {
    const LEAST: Self;
    /// The greater; NaN if one is.
    fn greater(self, other: Self) -> Self {
        // Only NaN differs from itself.
        #[allow(clippy::eq_op, reason = "it asks for NaN")]
        if self > other || self != self {
            self
        } else {
            other
        }
    }
}

impl Ordered for bool {
    const LEAST: Self = false;
}
impl Ordered for i32 {
    const LEAST: Self = Self::MIN;
}
impl Ordered for i64 {
    const LEAST: Self = Self::MIN;
}
impl Ordered for u32 {
    const LEAST: Self = Self::MIN;
}
impl Ordered for f32 {
    const LEAST: Self = Self::NEG_INFINITY;
}
impl Ordered for f64 {
    const LEAST: Self = Self::NEG_INFINITY;
}

/// Reduces an array over `axes`, group by group of neighbouring axes.
pub(super) fn reduce<T: TensorElement>(
    operand: &Array,
    axes: &[usize],
    start: T,
    combine: impl Fn(T, T) -> T + Copy,
) -> Array {
    let shape = operand.shape();
    let mut reduced: Option<Vec<T>> = None;
    let mut after = shape.len();
    while let Some(last) = (0..after).rev().find(|axis| axes.contains(axis)) {
        let first = (0..last)
            .rev()
            .find(|axis| !axes.contains(axis))
            .map_or(0, |axis| axis + 1);
        let outer = shape[..first].iter().product();
        let middle = shape[first..=last].iter().product();
        let inner = (last + 1..shape.len())
            .filter(|axis| !axes.contains(axis))
            .map(|axis| shape[axis])
            .product();
        let elements = reduced
            .as_deref()
            .unwrap_or_else(|| operand.elements::<T>());
        reduced = Some(reduce_middle(
            elements,
            [outer, middle, inner],
            start,
            combine,
        ));
        after = first;
    }
    let elements = reduced.unwrap_or_else(|| operand.elements::<T>().to_vec());
    Array::new(without_axes(shape, axes), elements)
}

/// Reduces the middle of three axes.
fn reduce_middle<T: TensorElement>(
    elements: &[T],
    [outer, middle, inner]: [usize; 3],
    start: T,
    combine: impl Fn(T, T) -> T + Copy,
) -> Vec<T> {
    if inner == 1 {
        if middle == 0 {
            return vec![start; outer];
        }
        return elements
            .chunks_exact(middle)
            .map(|row| reduce_row(row, start, combine))
            .collect();
    }
    let mut result = reused(outer * inner);
    result.fill(start);
    if middle * inner > 0 {
        for (target, rows) in result
            .chunks_exact_mut(inner)
            .zip(elements.chunks_exact(middle * inner))
        {
            reduce_rows(target, rows, start, combine);
        }
    }
    result
}

/// Reduces neighbouring elements: lanes side by side, and halves of long rows apart, so that rounding
/// errors grow with the logarithm of the length (Higham, "The accuracy of floating point summation", 1993).
fn reduce_row<T: TensorElement>(row: &[T], start: T, combine: impl Fn(T, T) -> T + Copy) -> T {
    const LANES: usize = 16;
    const BLOCK: usize = 64 * LANES;
    if row.len() > BLOCK {
        let (left, right) = row.split_at((row.len() / 2).next_multiple_of(LANES));
        return combine(
            reduce_row(left, start, combine),
            reduce_row(right, start, combine),
        );
    }
    let mut lanes = [start; LANES];
    let chunks = row.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        lanes
            .iter_mut()
            .zip(chunk)
            .for_each(|(lane, &element)| *lane = combine(*lane, element));
    }
    lanes
        .iter_mut()
        .zip(rest)
        .for_each(|(lane, &element)| *lane = combine(*lane, element));
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] = combine(lanes[lane], lanes[lane + width]);
        }
        width /= 2;
    }
    lanes[0]
}

/// Combines rows into `target`, halves of many rows apart as in [`reduce_row`].
fn reduce_rows<T: TensorElement>(
    target: &mut [T],
    rows: &[T],
    start: T,
    combine: impl Fn(T, T) -> T + Copy,
) {
    const BLOCK: usize = 32;
    let width = target.len();
    let count = rows.len() / width;
    if count <= BLOCK {
        for row in rows.chunks_exact(width) {
            target
                .iter_mut()
                .zip(row)
                .for_each(|(sum, &element)| *sum = combine(*sum, element));
        }
        return;
    }
    let (left, right) = rows.split_at(count / 2 * width);
    reduce_rows(target, left, start, combine);
    let mut other = vec![start; width];
    reduce_rows(&mut other, right, start, combine);
    target
        .iter_mut()
        .zip(&other)
        .for_each(|(sum, &element)| *sum = combine(*sum, element));
}

pub(super) fn sum_array(operand: &Array, axes: &[usize]) -> Array {
    match operand.dtype() {
        DType::I32 => reduce(operand, axes, 0, i32::plus),
        DType::I64 => reduce(operand, axes, 0, i64::plus),
        DType::U32 => reduce(operand, axes, 0, u32::plus),
        DType::F32 => reduce(operand, axes, 0.0, f32::plus),
        _ => reduce(operand, axes, 0.0, f64::plus),
    }
}

pub(super) fn argmax_array<T: Ordered>(operand: &Array, axis: usize) -> Array {
    let shape = operand.shape();
    let (length, inner) = (shape[axis], shape[axis + 1..].iter().product::<usize>());
    let elements = operand.elements::<T>();
    let blocks = elements.chunks_exact((length * inner).max(1));
    let positions = match inner {
        1 => blocks.map(argmax_row).collect(),
        _ => blocks
            .flat_map(|block| argmax_columns(block, inner))
            .collect(),
    };
    Array::new(without_axes(shape, &[axis]), positions)
}

/// The position of the first maximum: two quick passes rather than a slow one.
#[allow(clippy::eq_op, reason = "only NaN differs from itself")]
fn argmax_row<T: Ordered>(row: &[T]) -> i32 {
    let maximum = reduce_row(row, T::LEAST, T::greater);
    let found = row
        .iter()
        .position(|&element| element == maximum || element != element);
    found.map_or(0, |position| i32::try_from(position).unwrap_or(i32::MAX))
}

/// The position of the first maximum of each column.
#[allow(clippy::eq_op, reason = "only NaN differs from itself")]
fn argmax_columns<T: Ordered>(rows: &[T], width: usize) -> Vec<i32> {
    let mut positions = vec![0; width];
    let (champions, rest) = rows.split_at(width);
    let mut champions = champions.to_vec();
    for (row, position) in rest.chunks_exact(width).zip(1..) {
        for ((champion, best), &element) in champions.iter_mut().zip(&mut positions).zip(row) {
            if element > *champion || (element != element && *champion == *champion) {
                (*champion, *best) = (element, position);
            }
        }
    }
    positions
}
