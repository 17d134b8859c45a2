//! Reductions over axes. [`crate::base::fold`] defines the order in which the kernels combine elements.

#![allow(
    clippy::inline_always,
    reason = "only what is inlined is compiled for the wide instruction sets"
)]

use pytree_base::bug::expect_some;

use crate::base::array::{Array, give_back, reused, with_wide};
use crate::base::dtype::{ArrayElement, DType};
use crate::base::fold;
use crate::base::instructions::arch;
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

/// Elements that can be added and multiplied.
pub(crate) trait Number: ArrayElement {
    const ONE: Self;
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
}

macro_rules! numbers {
    ($($float:ty),*; $($integer:ty),*) => {
        $(impl Number for $float {
            const ONE: Self = 1.0;
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self * other
            }
        })*
        $(impl Number for $integer {
            const ONE: Self = 1;
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
        })*
    };
}
numbers!(f32, f64; i32, i64, u32);

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

/// Reduces an array over `axes`. Neighbouring reduced axes form a group, and the axes of a group are reduced together.
/// The groups are reduced one after the other, starting with the last group.
fn folded<T: ArrayElement>(
    operand: &Array,
    axes: &[usize],
    start: T,
    combine: impl Fn(T, T) -> T + Copy,
) -> Array {
    let shape = operand.shape();
    // An axis of length 1 adds no elements and does not separate other axes, so it does not affect the order.
    let long: AxisList = (0..shape.len()).filter(|&axis| shape[axis] != 1).collect();
    let length = |axes: &[usize]| axes.iter().map(|&axis| shape[axis]).product::<usize>();
    let is_reduced = |axis: &usize| axes.contains(axis);
    let mut reduced: Option<Vec<T>> = None;
    let mut rest = &long[..];
    let mut inner = 1;
    while let Some(last) = rest.iter().rposition(is_reduced) {
        let first = rest[..last]
            .iter()
            .rposition(|axis| !is_reduced(axis))
            .map_or(0, |axis| axis + 1);
        inner *= length(&rest[last + 1..]);
        let (outer, middle) = (length(&rest[..first]), length(&rest[first..=last]));
        let mut shorter = reused(outer * inner);
        arch().dispatch(Middle {
            elements: reduced.as_deref().unwrap_or_else(|| operand.elements()),
            result: &mut shorter,
            length: middle,
            inner,
            start,
            combine,
        });
        if let Some(longer) = reduced.replace(shorter) {
            give_back(longer);
        }
        rest = &rest[..first];
    }
    let elements = reduced.unwrap_or_else(|| operand.elements::<T>().to_vec());
    Array::new(without_axes(shape, axes), elements)
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

/// Runs an expression with the element type of a numeric dtype.
macro_rules! with_number {
    ($dtype:expr, $type:ident => $body:expr) => {
        match $dtype {
            DType::I32 => {
                type $type = i32;
                $body
            }
            DType::I64 => {
                type $type = i64;
                $body
            }
            DType::U32 => {
                type $type = u32;
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

/// Returns the sums over some axes.
pub fn sum(operand: &Array, axes: &[usize]) -> Array {
    with_number!(operand.dtype(), T => folded(operand, axes, T::default(), <T as Number>::plus))
}

/// Returns a reduction over some axes.
pub fn reduce(reduction: Reduction, operand: &Array, axes: &[usize]) -> Array {
    match reduction {
        Reduction::Max => with_wide!(operand.dtype(), T => {
            folded(operand, axes, <T as Ordered>::LEAST, <T as Ordered>::greater)
        }),
        Reduction::Min => with_wide!(operand.dtype(), T => {
            folded(operand, axes, <T as Ordered>::GREATEST, <T as Ordered>::lesser)
        }),
        Reduction::Prod => with_number!(operand.dtype(), T => {
            folded(operand, axes, <T as Number>::ONE, <T as Number>::times)
        }),
        Reduction::And => match operand.dtype() {
            DType::I32 => folded(operand, axes, !0_i32, |left, right| left & right),
            DType::I64 => folded(operand, axes, !0_i64, |left, right| left & right),
            DType::U32 => folded(operand, axes, !0_u32, |left, right| left & right),
            _ => folded(operand, axes, true, |left, right| left & right),
        },
        Reduction::Or => match operand.dtype() {
            DType::I32 => folded(operand, axes, 0_i32, |left, right| left | right),
            DType::I64 => folded(operand, axes, 0_i64, |left, right| left | right),
            DType::U32 => folded(operand, axes, 0_u32, |left, right| left | right),
            _ => folded(operand, axes, false, |left, right| left | right),
        },
    }
}

/// Returns the positions of the first extrema along an axis, as i32.
pub fn argument(extremum: Extremum, operand: &Array, axis: usize) -> Array {
    with_wide!(operand.dtype(), T => argument_of::<T>(extremum, operand, axis))
}

fn argument_of<T: Ordered>(extremum: Extremum, operand: &Array, axis: usize) -> Array {
    match extremum {
        Extremum::Max => argument_by(operand, axis, T::LEAST, T::greater, |x, y| x > y),
        Extremum::Min => argument_by(operand, axis, T::GREATEST, T::lesser, |x, y| x < y),
    }
}

/// Returns the position of the first extremum along an axis. `start` and `combine` define the extremum.
fn argument_by<T: Ordered>(
    operand: &Array,
    axis: usize,
    start: T,
    combine: impl Fn(T, T) -> T + Copy,
    better: impl Fn(T, T) -> bool + Copy,
) -> Array {
    let shape = operand.shape();
    let (length, inner) = (shape[axis], shape[axis + 1..].iter().product::<usize>());
    let blocks = operand
        .elements::<T>()
        .chunks_exact((length * inner).max(1));
    let positions = match inner {
        1 => blocks
            .map(|row| argument_of_row(row, start, combine))
            .collect(),
        _ => blocks
            .flat_map(|block| arguments_of_columns(block, inner, better))
            .collect(),
    };
    Array::new(without_axes(shape, &[axis]), positions)
}

/// Returns the position of the first extremum of a row. Computes the extremum first and then searches for it, which is
/// faster than one loop that does both.
fn argument_of_row<T: Ordered>(row: &[T], start: T, combine: impl Fn(T, T) -> T + Copy) -> i32 {
    let mut extremum = start;
    arch().dispatch(Middle {
        elements: row,
        result: std::slice::from_mut(&mut extremum),
        length: row.len(),
        inner: 1,
        start,
        combine,
    });
    let found = row
        .iter()
        .position(|&element| element == extremum || element.is_nan());
    let position = expect_some(found, "the extremum to be an element of its row");
    expect_some(i32::try_from(position).ok(), "a position that i32 holds")
}

/// Returns, for each column of `rows`, the position of its first extremum.
fn arguments_of_columns<T: Ordered>(
    rows: &[T],
    width: usize,
    better: impl Fn(T, T) -> bool,
) -> Vec<i32> {
    let mut positions = vec![0; width];
    let (champions, rest) = rows.split_at(width);
    let mut champions = champions.to_vec();
    for (row, position) in rest.chunks_exact(width).zip(1..) {
        for ((champion, best), &element) in champions.iter_mut().zip(&mut positions).zip(row) {
            if better(element, *champion) || (element.is_nan() && !champion.is_nan()) {
                (*champion, *best) = (element, position);
            }
        }
    }
    positions
}
