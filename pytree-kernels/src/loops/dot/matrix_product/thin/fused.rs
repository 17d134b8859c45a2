//! The numbers that products with few rows or columns add.

use crate::loops::dot::matrix_product::stored::Factor;

/// The number of partial sums of an element.
pub(in super::super) const LANES: usize = 16;

/// A float type in which products are summed.
pub(crate) trait Fused: Factor {
    /// Returns `self` plus the product of `left` and `right`, rounded once.
    fn plus_fused(self, left: Self, right: Self) -> Self;
}

impl Fused for f32 {
    #[inline(always)]
    fn plus_fused(self, left: Self, right: Self) -> Self {
        left.mul_add(right, self)
    }
}

impl Fused for f64 {
    #[inline(always)]
    fn plus_fused(self, left: Self, right: Self) -> Self {
        left.mul_add(right, self)
    }
}
