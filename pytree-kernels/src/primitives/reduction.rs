//! Reductions over axes. [`crate::base::fold`] defines the order in which the kernels combine elements.

#![allow(
    clippy::inline_always,
    reason = "only what is inlined is compiled for the wide instruction sets"
)]

use std::ops::{Add, Mul};

use pytree_base::bug::expect_some;

use crate::base::array::{Array, with_wide};
use crate::base::dtype::{AbstractArray, ArrayElement, DType};
use crate::base::fold;
use crate::base::instructions::dispatch;
use crate::base::shape::{AxisList, without_axes};

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

/// Numbers that can be added and multiplied.
pub(crate) trait Number: ArrayElement {
    const ONE: Self;
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;

    /// Returns the elements of an array. An i32 may also be the bits of a u32.
    fn of(array: &Array) -> &[Self] {
        array.elements()
    }

    /// Returns the elements of an array for writing; see [`of`](Self::of).
    fn of_mut(array: &mut Array) -> &mut [Self] {
        array.elements_mut()
    }
}

macro_rules! numbers {
    ($($number:ty: $one:expr, $plus:ident, $times:ident $(, $bits:ty)?;)*) => {$(
        impl Number for $number {
            const ONE: Self = $one;
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.$plus(other)
            }
            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self.$times(other)
            }
            $(
                fn of(array: &Array) -> &[Self] {
                    bytemuck::cast_slice(array.bits::<$bits>())
                }
                fn of_mut(array: &mut Array) -> &mut [Self] {
                    bytemuck::cast_slice_mut(array.bits_mut::<$bits>())
                }
            )?
        }
    )*};
}
numbers! {
    f32: 1.0, add, mul;
    f64: 1.0, add, mul;
    i32: 1, wrapping_add, wrapping_mul, u32;
    i64: 1, wrapping_add, wrapping_mul;
    u32: 1, wrapping_add, wrapping_mul;
}

/// Elements with a least and a greatest value, which are the initial values of extrema.
pub(crate) trait Ordered: ArrayElement {
    const LEAST: Self;
    const GREATEST: Self;

    /// Returns the greater element, or NaN if either element is NaN.
    #[inline(always)]
    fn greater(self, other: Self) -> Self {
        if self > other || self.is_nan() {
            self
        } else {
            other
        }
    }

    /// Returns the lesser element, or NaN if either element is NaN.
    #[inline(always)]
    fn lesser(self, other: Self) -> Self {
        if self < other || self.is_nan() {
            self
        } else {
            other
        }
    }

    /// Returns whether the element is NaN.
    #[allow(clippy::eq_op, reason = "only NaN differs from itself")]
    #[inline(always)]
    fn is_nan(self) -> bool {
        self != self
    }
}

macro_rules! ordered {
    ($($element:ty: $least:expr, $greatest:expr;)*) => {$(
        impl Ordered for $element {
            const LEAST: Self = $least;
            const GREATEST: Self = $greatest;
        }
    )*};
}
ordered! {
    bool: false, true;
    i32: Self::MIN, Self::MAX;
    i64: Self::MIN, Self::MAX;
    u32: Self::MIN, Self::MAX;
    f32: Self::NEG_INFINITY, Self::INFINITY;
    f64: Self::NEG_INFINITY, Self::INFINITY;
}

/// A reduction over the second of three axes: the length of this axis, and that of the third.
#[derive(Clone, Copy)]
struct Pass {
    length: usize,
    inner: usize,
}

/// Reduces an array over `axes`. Neighbouring reduced axes form a group, and the axes of a group are reduced together.
/// The groups are reduced one after the other, starting with the last group. `reduce` writes a pass over an array to another one.
fn folded(operand: &Array, axes: &[usize], reduce: &dyn Fn(Pass, &Array, &mut Array)) -> Array {
    let shape = operand.shape();
    // An axis of length 1 adds no elements and does not separate other axes, so it does not affect the order.
    let long: AxisList = (0..shape.len()).filter(|&axis| shape[axis] != 1).collect();
    let length = |axes: &[usize]| axes.iter().map(|&axis| shape[axis]).product::<usize>();
    let is_reduced = |axis: &usize| axes.contains(axis);
    let mut reduced: Option<Array> = None;
    let mut rest = &long[..];
    let mut inner = 1;
    while let Some(last) = rest.iter().rposition(is_reduced) {
        let first = rest[..last]
            .iter()
            .rposition(|axis| !is_reduced(axis))
            .map_or(0, |axis| axis + 1);
        inner *= length(&rest[last + 1..]);
        let (outer, length) = (length(&rest[..first]), length(&rest[first..=last]));
        let mut shorter = Array::reused(&AbstractArray::new(operand.dtype(), [outer * inner]));
        reduce(
            Pass { length, inner },
            reduced.as_ref().unwrap_or(operand),
            &mut shorter,
        );
        reduced = Some(shorter);
        rest = &rest[..first];
    }
    let mut result = reduced.unwrap_or_else(|| operand.clone());
    result.info.shape = without_axes(shape, axes);
    result
}

#[inline]
fn run<T: ArrayElement>(
    Pass { length, inner }: Pass,
    elements: &[T],
    result: &mut [T],
    start: T,
    combine: impl Fn(T, T) -> T + Copy,
) {
    dispatch::<T, _>(Middle {
        elements,
        result,
        length,
        inner,
        start,
        combine,
    });
}

/// The reduction over the second of three axes, which has `length` elements. The third axis has `inner` elements. The code is
/// compiled for the wide instruction sets.
struct Middle<'a, T, C> {
    elements: &'a [T],
    result: &'a mut [T],
    length: usize,
    inner: usize,
    start: T,
    combine: C,
}

impl<T: ArrayElement, C: Fn(T, T) -> T + Copy> pulp::WithSimd for Middle<'_, T, C> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        let Self {
            elements,
            result,
            length,
            inner,
            start,
            combine,
        } = self;
        if elements.is_empty() {
            result.fill(start);
        } else if inner == 1 {
            for (result, row) in result.iter_mut().zip(elements.chunks_exact(length)) {
                *result = fold::row(row, start, combine);
            }
        } else {
            let targets = result.chunks_exact_mut(inner);
            for (target, rows) in targets.zip(elements.chunks_exact(length * inner)) {
                fold::columns(target, rows, start, combine);
            }
        }
    }
}

/// Runs an expression with the type of the numbers that kernels add and multiply for a dtype. Sums and products of u32 have the
/// bits of those of i32.
macro_rules! with_number {
    ($dtype:expr, $type:ident => $body:expr) => {
        match $dtype {
            DType::I32 | DType::U32 => {
                type $type = i32;
                $body
            }
            DType::I64 => {
                type $type = i64;
                $body
            }
            DType::F32 => {
                type $type = f32;
                $body
            }
            _ => {
                type $type = f64;
                $body
            }
        }
    };
}
pub(crate) use with_number;

/// Runs an expression with the element type of a numeric dtype.
macro_rules! with_ordered {
    ($dtype:expr, $type:ident => $body:expr) => {
        match $dtype {
            DType::U32 => {
                type $type = u32;
                $body
            }
            dtype => $crate::primitives::reduction::with_number!(dtype, $type => $body),
        }
    };
}
pub(crate) use with_ordered;

/// Returns the sums over some axes.
pub fn sum(operand: &Array, axes: &[usize]) -> Array {
    with_number!(operand.dtype(), T => combined(operand, axes, T::default(), <T as Number>::plus))
}

/// Reduces the numbers of an array.
fn combined<T: Number>(
    operand: &Array,
    axes: &[usize],
    start: T,
    combine: impl Fn(T, T) -> T + Copy,
) -> Array {
    folded(operand, axes, &|pass, operand, result| {
        run(pass, T::of(operand), T::of_mut(result), start, combine);
    })
}

/// Reduces an array to its greatest or least elements. Those of bools are their disjunction and conjunction.
fn extrema(extremum: Extremum, operand: &Array, axes: &[usize]) -> Array {
    with_wide!(operand.dtype(), T => match extremum {
        Extremum::Max => folded(operand, axes, &|pass, operand, result| {
            run::<T>(pass, operand.elements(), result.elements_mut(), T::LEAST, T::greater);
        }),
        Extremum::Min => folded(operand, axes, &|pass, operand, result| {
            run::<T>(pass, operand.elements(), result.elements_mut(), T::GREATEST, T::lesser);
        }),
    })
}

/// Returns a reduction over some axes.
pub fn reduce(reduction: Reduction, operand: &Array, axes: &[usize]) -> Array {
    match (reduction, operand.dtype()) {
        (Reduction::Max, _) | (Reduction::Or, DType::Bool) => extrema(Extremum::Max, operand, axes),
        (Reduction::Min, _) | (Reduction::And, DType::Bool) => {
            extrema(Extremum::Min, operand, axes)
        }
        (Reduction::Prod, dtype) => with_number!(dtype, T => {
            combined(operand, axes, <T as Number>::ONE, <T as Number>::times)
        }),
        (Reduction::And, DType::I64) => combined(operand, axes, !0_i64, |left, right| left & right),
        (Reduction::And, _) => combined(operand, axes, !0_i32, |left, right| left & right),
        (Reduction::Or, DType::I64) => combined(operand, axes, 0_i64, |left, right| left | right),
        (Reduction::Or, _) => combined(operand, axes, 0_i32, |left, right| left | right),
    }
}

/// Returns the positions of the first extrema along an axis, as i32.
pub fn argument(extremum: Extremum, operand: &Array, axis: usize) -> Array {
    let shape = operand.shape();
    let (length, inner) = (shape[axis], shape[axis + 1..].iter().product());
    let result = AbstractArray::new(DType::I32, without_axes(shape, &[axis]));
    let mut result = Array::reused(&result);
    let pass = Pass { length, inner };
    with_wide!(operand.dtype(), T => {
        let (elements, positions) = (operand.elements::<T>(), result.elements_mut());
        match extremum {
            Extremum::Max => arguments(pass, elements, positions, T::LEAST, T::greater, T::gt),
            Extremum::Min => arguments(pass, elements, positions, T::GREATEST, T::lesser, T::lt),
        }
    });
    result
}

/// Writes the positions of the first extrema. `start` and `combine` define the extremum.
fn arguments<T: Ordered>(
    Pass { length, inner }: Pass,
    elements: &[T],
    positions: &mut [i32],
    start: T,
    combine: impl Fn(T, T) -> T + Copy,
    better: impl Fn(&T, &T) -> bool,
) {
    let mut blocks = elements.chunks_exact((length * inner).max(1));
    // These are loops because each closure of an iterator would be compiled again.
    if inner == 1 {
        for position in positions {
            let Some(row) = blocks.next() else { return };
            *position = argument_of_row(row, start, combine);
        }
        return;
    }
    for positions in positions.chunks_exact_mut(inner.max(1)) {
        let Some(block) = blocks.next() else { return };
        arguments_of_columns(block, positions, &better);
    }
}

/// Returns the position of the first extremum of a row. Computes the extremum first and then searches for it, which is
/// faster than one loop that does both.
fn argument_of_row<T: Ordered>(row: &[T], start: T, combine: impl Fn(T, T) -> T + Copy) -> i32 {
    let mut extremum = start;
    let pass = Pass {
        length: row.len(),
        inner: 1,
    };
    run(
        pass,
        row,
        std::slice::from_mut(&mut extremum),
        start,
        combine,
    );
    let found = row
        .iter()
        .position(|&element| element == extremum || element.is_nan());
    let position = expect_some(found, "the extremum to be an element of its row");
    expect_some(i32::try_from(position).ok(), "a position that i32 holds")
}

/// Finds the position of the first extremum of each column of `rows`.
fn arguments_of_columns<T: Ordered>(
    rows: &[T],
    positions: &mut [i32],
    better: &impl Fn(&T, &T) -> bool,
) {
    positions.fill(0);
    let (champions, rest) = rows.split_at(positions.len());
    let mut champions = champions.to_vec();
    for (row, position) in rest.chunks_exact(positions.len()).zip(1..) {
        for ((champion, best), &element) in champions.iter_mut().zip(&mut *positions).zip(row) {
            if better(&element, champion) || (element.is_nan() && !champion.is_nan()) {
                (*champion, *best) = (element, position);
            }
        }
    }
}
