//! The element types of matrices.

use faer::traits::RealField;
use pytree_transform::extend::MatrixElement;

/// An element type of matrices: `f32` or `f64`.
pub(crate) trait Real: MatrixElement + RealField + Copy {
    const ZERO: Self;
    const ONE: Self;
    const NAN: Self;

    /// Returns whether the reciprocal is zero, infinite or not exact to the last digits.
    fn has_no_reciprocal(self) -> bool;
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

            fn has_no_reciprocal(self) -> bool {
                !self.recip().is_normal()
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
