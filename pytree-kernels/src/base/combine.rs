//! Numbers and ordered elements, and how reductions combine two of them.

use std::ops::{Add, Mul};

use crate::base::array::Array;
use crate::base::dtype::ArrayElement;

/// Numbers that can be added and multiplied.
pub(crate) trait Number: ArrayElement {
    const ZERO: Self;
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
    ($($number:ty: $zero:expr, $one:expr, $plus:ident, $times:ident $(, $bits:ty)?;)*) => {$(
        impl Number for $number {
            const ZERO: Self = $zero;
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
    f32: 0.0, 1.0, add, mul;
    f64: 0.0, 1.0, add, mul;
    i32: 0, 1, wrapping_add, wrapping_mul, u32;
    i64: 0, 1, wrapping_add, wrapping_mul;
    u32: 0, 1, wrapping_add, wrapping_mul;
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

/// How a reduction combines two elements.
pub(crate) trait Combine<T>: Copy + Send + Sync + 'static {
    /// Whether loops are compiled for several instruction sets. Other reductions are rare.
    const IS_WIDE: bool;

    /// The neutral element, which is the result of no elements.
    const START: T;

    fn combine(left: T, right: T) -> T;
}

macro_rules! combinations {
    ($($(#[$docs:meta])* $name:ident of $element:ident: $bound:path, $is_wide:expr, $start:expr, $combine:expr;)*) => {$(
        $(#[$docs])*
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $name;

        impl<$element: $bound> Combine<$element> for $name {
            const IS_WIDE: bool = $is_wide && $element::HAS_WIDE_LOOPS;
            const START: $element = $start;

            #[inline(always)]
            fn combine(left: $element, right: $element) -> $element {
                $combine(left, right)
            }
        }
    )*};
}
combinations! {
    /// The sum.
    Sum of T: Number, true, T::ZERO, T::plus;
    /// The product.
    Prod of T: Number, true, T::ONE, T::times;
    /// The maximum, or NaN if any element is NaN.
    Max of T: Ordered, true, T::LEAST, T::greater;
    /// The minimum, or NaN if any element is NaN.
    Min of T: Ordered, true, T::GREATEST, T::lesser;
}

/// The bitwise conjunction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct And;

/// The bitwise disjunction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Or;

macro_rules! bitwise {
    ($($integer:ident)*) => {$(
        impl Combine<$integer> for And {
            const IS_WIDE: bool = false;
            const START: $integer = !0;

            #[inline(always)]
            fn combine(left: $integer, right: $integer) -> $integer {
                left & right
            }
        }

        impl Combine<$integer> for Or {
            const IS_WIDE: bool = false;
            const START: $integer = 0;

            #[inline(always)]
            fn combine(left: $integer, right: $integer) -> $integer {
                left | right
            }
        }
    )*};
}
bitwise!(i32 i64);

/// Runs an expression with the type of the numbers that kernels add and multiply for a dtype. Sums and products of u32 have the
/// bits of those of i32.
macro_rules! with_number {
    ($dtype:expr, $type:ident => $body:expr) => {
        $crate::__with_alias!($dtype, $type => $body;
            DType::I32 | DType::U32 => i32, DType::I64 => i64, DType::F32 => f32, _ => f64)
    };
}
pub(crate) use with_number;

/// Runs an expression with the element type of a numeric dtype.
macro_rules! with_ordered {
    ($dtype:expr, $type:ident => $body:expr) => {
        $crate::__with_alias!($dtype, $type => $body;
            DType::U32 => u32; dtype => $crate::base::combine::with_number!(dtype, $type => $body))
    };
}
pub(crate) use with_ordered;

/// Runs an expression with `$combine` as an alias of the type of an operation.
macro_rules! with_fold {
    ($fold:expr, $combine:ident => $body:expr) => {
        $crate::__with_alias!($fold, $combine => $body;
            $crate::base::fold::Fold::Sum => $crate::base::combine::Sum,
            $crate::base::fold::Fold::Max => $crate::base::combine::Max,
            $crate::base::fold::Fold::Min => $crate::base::combine::Min)
    };
}
pub(crate) use with_fold;
