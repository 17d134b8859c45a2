//! Functions that are rare enough to take them from the standard library, which takes them from the system: their last digit differs
//! between systems. With portable instructions and on wasm, they are those of the crate `libm`, which are the same everywhere.

use super::instructions::are_portable;

/// The functions. Angles are in radians.
pub(crate) trait Rare: Sized {
    /// Returns the cube root.
    fn cube_root(self) -> Self;
    /// Returns the angle with a sine.
    fn arcsine(self) -> Self;
    /// Returns the angle with a cosine.
    fn arccosine(self) -> Self;
    /// Returns the angle between the positive axis of `right` and a point.
    fn angle_of(self, right: Self) -> Self;
    /// Returns a power.
    fn power(self, exponent: Self) -> Self;
}

macro_rules! rare {
    ($float:ty, $cbrt:ident, $asin:ident, $acos:ident, $atan2:ident, $pow:ident) => {
        impl Rare for $float {
            fn cube_root(self) -> Self {
                if are_portable() {
                    libm::$cbrt(self)
                } else {
                    self.cbrt()
                }
            }
            fn arcsine(self) -> Self {
                if are_portable() {
                    libm::$asin(self)
                } else {
                    self.asin()
                }
            }
            fn arccosine(self) -> Self {
                if are_portable() {
                    libm::$acos(self)
                } else {
                    self.acos()
                }
            }
            fn angle_of(self, right: Self) -> Self {
                if are_portable() {
                    libm::$atan2(self, right)
                } else {
                    self.atan2(right)
                }
            }
            fn power(self, exponent: Self) -> Self {
                if are_portable() {
                    libm::$pow(self, exponent)
                } else {
                    self.powf(exponent)
                }
            }
        }
    };
}
rare!(f32, cbrtf, asinf, acosf, atan2f, powf);
rare!(f64, cbrt, asin, acos, atan2, pow);
