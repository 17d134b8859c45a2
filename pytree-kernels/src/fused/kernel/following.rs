//! A kernel that follows a product or a convolution: it continues with each part of the result on the thread that has computed the part.
use smallvec::SmallVec;

use super::followed::Followed;
use super::program::{Kernel, Product};
use crate::base::dtype::AbstractArray;
use crate::base::numbers::least_common_multiple;
use crate::base::target::{Following, Rows};
use crate::fused::places::Filler;
use crate::fused::steps::{Fill, Level, Step, Work};
use crate::fused::tiles::totals::Total;
use crate::loops::elementwise::classes::class_of;

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
