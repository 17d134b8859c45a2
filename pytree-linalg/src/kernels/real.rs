//! The element types of matrices.

use std::ops::{DivAssign, Mul, Neg, SubAssign};

use pytree_transform::extend::MatrixElement;

/// An element type of matrices: `f32` or `f64`.
pub(crate) trait Real:
    MatrixElement + Copy + Neg<Output = Self> + Mul<Output = Self> + SubAssign + DivAssign
{
    const ZERO: Self;
    const ONE: Self;
    const NAN: Self;

    fn sqrt(self) -> Self;
    fn abs(self) -> Self;
    fn is_finite(self) -> bool;
    fn to_f64(self) -> f64;
    fn from_f64(number: f64) -> Self;
}

macro_rules! real {
    ($float:ident) => {
        #[allow(
            clippy::cast_possible_truncation,
            trivial_numeric_casts,
            clippy::cast_lossless,
            reason = "results are rounded to the dtype"
        )]
        impl Real for $float {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const NAN: Self = $float::NAN;

            fn sqrt(self) -> Self {
                self.sqrt()
            }
            fn abs(self) -> Self {
                self.abs()
            }
            fn is_finite(self) -> bool {
                self.is_finite()
            }
            fn to_f64(self) -> f64 {
                self as f64
            }
            fn from_f64(number: f64) -> Self {
                number as $float
            }
        }
    };
}

real!(f32);
real!(f64);
