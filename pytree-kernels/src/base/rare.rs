//! Functions that are rare enough to take them from the standard library, which takes them from the system: their last digit differs
//! between systems. With portable instructions and on wasm, they are those of the crate `libm`, which are the same everywhere.

use super::instructions::are_portable;

/// The functions. Angles are in radians.
pub(crate) trait Rare: Sized {
    /// Returns the cube root.
    fn cube_root(self) -> Self;
    /// Returns the angle between the positive axis of `right` and a point.
    fn angle_of(self, right: Self) -> Self;
}

macro_rules! rare {
    ($float:ty, $cbrt:ident, $atan2:ident) => {
        impl Rare for $float {
            fn cube_root(self) -> Self {
                if are_portable() {
                    libm::$cbrt(self)
                } else {
                    self.cbrt()
                }
            }
            fn angle_of(self, right: Self) -> Self {
                if are_portable() {
                    libm::$atan2(self, right)
                } else {
                    self.atan2(right)
                }
            }
        }
    };
}
rare!(f32, cbrtf, atan2f);
rare!(f64, cbrt, atan2);
