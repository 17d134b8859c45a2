//! A kernel that follows a product or a convolution: it continues with each part of the result on the thread that has computed the part.

use std::sync::Arc;

use pytree_base::bug::bug;
use smallvec::SmallVec;

use super::{Fill, Filler, Kernel, Level, Product, Step, Work};
use crate::base::array::Array;
use crate::base::dtype::{AbstractArray, DType};
use crate::base::narrow::Half;
use crate::base::numbers::least_common_multiple;
use crate::base::target::{Following, Rows, Then};
use crate::fused::tiles::Total;
use crate::loops::convolution::{self, Convolution, Plan};
use crate::loops::dot::{DotGeneral, DotOperands};
use crate::loops::elementwise::classes::{Memory, class_of};

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
    fn width(&self, left: &AbstractArray, right: &AbstractArray) -> Option<usize> {
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
    fn fits(&self, left: &AbstractArray, right: &AbstractArray, following: &Following) -> bool {
        match self {
            Self::Product(_) => true,
            Self::Convolution(convolution) => {
                let plan = Plan::new(convolution, &left.shape, &right.shape);
                plan.is_some_and(|plan| plan.can_continue(left.dtype, following))
            }
        }
    }

    fn nanoseconds(&self, left: &AbstractArray, right: &AbstractArray, results: usize) -> usize {
        match self {
            Self::Product(dot) => dot.nanoseconds(left, right),
            Self::Convolution(convolution) => convolution::nanoseconds(convolution, right, results),
        }
    }

    fn is_divisible(&self, left: &AbstractArray, right: &AbstractArray) -> bool {
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

impl Kernel {
    /// Lets the kernel follow the operation `followed` with two operands, whose result is the input with the position `input`. Returns
    /// false if it cannot. Otherwise the left operand takes the place of this input, and the right operand is a new last input.
    /// With `is_kept`, the result of the operation is the last result.
    pub fn follow(
        &mut self,
        followed: Followed,
        operands: [&AbstractArray; 2],
        result: &AbstractArray,
        input: usize,
        is_kept: bool,
    ) -> bool {
        let [left, right] = operands;
        let fits = self.product.is_none()
            && class_of(result.dtype) == self.float
            && result.len() == self.length
            && self.length > 0
            && self.reads_elements_only(input);
        let width = if fits {
            followed.width(left, right)
        } else {
            None
        };
        let following = width.map(|width| self.following(width));
        let Some(following) = following.filter(|following| followed.fits(left, right, following))
        else {
            return false;
        };
        self.product = Some(Product {
            input,
            result: result.clone(),
            following,
            nanoseconds: followed.nanoseconds(left, right, result.len()),
            is_divisible: followed.is_divisible(left, right),
            is_kept,
            followed,
        });
        if is_kept {
            for store in &mut self.stores {
                store.takes.retain(|taken| *taken != input);
            }
        }
        true
    }

    /// Returns the inputs that results may overwrite.
    pub fn overwritten(&self) -> impl Iterator<Item = usize> {
        self.stores.iter().flat_map(|store| &store.takes).copied()
    }

    /// Returns the inputs that results overwrite if nothing else uses the memory of these inputs.
    pub fn in_place(&self) -> impl Iterator<Item = usize> {
        let mut taken: SmallVec<[usize; 4]> = SmallVec::new();
        taken.extend(self.product.as_ref().map(|product| product.input));
        self.stores.iter().filter_map(move |store| {
            let mut free = store.takes.iter().filter(|input| !taken.contains(input));
            let input = *free.next()?;
            taken.push(input);
            Some(input)
        })
    }

    /// Returns whether each element of an input is read only to compute the elements of results at the same position.
    fn reads_elements_only(&self, input: usize) -> bool {
        let is_filled = self.fills.iter().any(|filled| match filled.fill {
            Fill::Number(Filler::Scalar { input: read }) | Fill::Row { input: read, .. } => {
                read == input
            }
            Fill::Number(Filler::Constant(_)) => false,
        });
        let is_factor = self
            .factors
            .iter()
            .any(|factor| matches!(factor, Filler::Scalar { input: factor } if *factor == input));
        let is_repeated = |step: &Step| {
            let of_elements = step.level == Level::Element || matches!(step.work, Work::Rows(_));
            step.repeated() == Some(input)
                || !of_elements && step.inputs().any(|read| read == input)
        };
        !is_filled && !is_factor && !self.steps.iter().any(is_repeated)
    }

    /// Returns how the elements may be divided into regions, if the product has rows of `width` elements.
    fn following(&self, width: usize) -> Following {
        let blocks = self.totals.iter().map(Total::block);
        let grain = { blocks }.try_fold(self.row, least_common_multiple);
        let rows_repeat = self.fills.iter().all(|filled| match filled.fill {
            Fill::Row { period, .. } => width.is_multiple_of(period),
            Fill::Number(_) => true,
        });
        let columns = self
            .totals
            .iter()
            .all(|total| total.period == width && width > 1);
        let rows = if self.row == 1 && rows_repeat && columns {
            Rows::Divisible
        } else {
            Rows::Whole
        };
        Following {
            grain: grain.unwrap_or(self.length).max(1),
            rows,
            nanoseconds: self.own_nanoseconds() * 1000 / self.length.max(1),
        }
    }

    /// Returns the bytes of the product whose result exists only while the kernel runs. If a result of the kernel overwrites the product,
    /// they are 0.
    pub fn scratch(&self) -> usize {
        let taken = |input| {
            self.stores
                .iter()
                .any(|store| store.takes.first() == Some(&input))
        };
        match &self.product {
            Some(product) if !product.is_kept && !taken(product.input) => {
                product.result.len() * product.result.dtype.bytes()
            }
            _ => 0,
        }
    }

    /// Returns whether the kernel can be divided into pieces without a first phase.
    pub fn is_divisible(&self) -> bool {
        self.product
            .as_ref()
            .is_none_or(|product| product.is_divisible)
    }
}
