//! The operations that a kernel can follow.

use std::sync::Arc;

use pytree_base::bug::bug;

use crate::base::array::Array;
use crate::base::dtype::{AbstractArray, DType};
use crate::base::narrow::Half;
use crate::base::target::{Following, Then};
use crate::loops::convolution::{self, Convolution, Plan};
use crate::loops::dot::{DotGeneral, DotOperands};
use crate::loops::elementwise::classes::Memory;

/// Runs an expression with `$target` as the memory of a product, whose type the kernel computes with or widens.
macro_rules! with_target {
    ($memory:expr, $target:ident => $body:expr) => {
        match $memory {
            Memory::F32($target) => $body,
            Memory::F64($target) => $body,
            Memory::Half(Half::BF16, bits) => {
                let $target = bits.of_bf16();
                $body
            }
            Memory::Half(Half::F16, bits) => {
                let $target = bits.of_f16();
                $body
            }
            _ => bug("a product of floats"),
        }
    };
}
pub(super) use with_target;

/// An operation with two operands that a kernel can follow.
#[derive(Clone, Debug)]
pub enum Followed {
    /// A tensor product.
    Product(DotGeneral),
    /// A convolution of floats.
    Convolution(Box<Convolution>),
}

impl Followed {
    /// Returns the name of the operation.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Product(_) => "dot_general",
            Self::Convolution(_) => "conv_general_dilated",
        }
    }

    /// Returns the number of elements of a row of the result, or `None` if no kernel can follow the operation.
    pub(super) fn width(&self, left: &AbstractArray, right: &AbstractArray) -> Option<usize> {
        match self {
            Self::Product(dot) => dot.is_in_order(left, right).then(|| dot.width(left, right)),
            Self::Convolution(convolution) => {
                let is_wide = matches!(left.dtype, DType::F32 | DType::F64);
                Plan::new(convolution, &left.shape, &right.shape)
                    .filter(|_| is_wide)?
                    .width()
            }
        }
    }

    /// Returns whether a kernel can continue with the parts of the result.
    pub(super) fn fits(
        &self,
        left: &AbstractArray,
        right: &AbstractArray,
        following: &Following,
    ) -> bool {
        match self {
            Self::Product(_) => true,
            Self::Convolution(convolution) => {
                let plan = Plan::new(convolution, &left.shape, &right.shape);
                plan.is_some_and(|plan| plan.can_continue(left.dtype, following))
            }
        }
    }

    pub(super) fn nanoseconds(
        &self,
        left: &AbstractArray,
        right: &AbstractArray,
        results: usize,
    ) -> usize {
        match self {
            Self::Product(dot) => dot.nanoseconds(left, right),
            Self::Convolution(convolution) => convolution::nanoseconds(convolution, right, results),
        }
    }

    pub(super) fn is_divisible(&self, left: &AbstractArray, right: &AbstractArray) -> bool {
        match self {
            Self::Product(dot) => dot.is_divisible(left, right),
            Self::Convolution(_) => false,
        }
    }

    /// Returns the operation with its operands.
    pub(super) fn operands(&self, left: Arc<Array>, right: Arc<Array>) -> FollowedOperands<'_> {
        match self {
            Self::Product(dot) => FollowedOperands::Product(dot.operands(left, right)),
            Self::Convolution(convolution) => {
                match Plan::new(convolution, left.shape(), right.shape()) {
                    Some(plan) => FollowedOperands::Convolution(plan, left, right),
                    None => bug("a convolution whose results have terms"),
                }
            }
        }
    }
}

/// An operation that a kernel follows, with its operands.
pub(super) enum FollowedOperands<'k> {
    Product(DotOperands),
    Convolution(Plan<'k>, Arc<Array>, Arc<Array>),
}

impl FollowedOperands<'_> {
    /// Writes the result to memory, on parallel threads if there is enough work, and continues with its regions.
    pub(super) fn compute(&self, memory: Memory<'_>, threads: usize, then: Then<'_>) {
        match self {
            Self::Product(operands) => with_target!(memory, target => {
                operands.multiply(target, threads, Some(then));
            }),
            Self::Convolution(plan, input, kernel) => match memory {
                Memory::F32(target) => plan.run(input, kernel, target, Some(then)),
                Memory::F64(target) => plan.run(input, kernel, target, Some(then)),
                _ => bug("a convolution of wide floats"),
            },
        }
    }
}
