//! The order in which a product adds the terms of an element.
//!
//! The crate `gemm` chooses its kernel by the lengths and also by the strides, and its kernels add in different orders. So a product
//! may round differently after an operand was transposed in memory. [`Loops::summation`] repeats this choice. A pass may change
//! the strides of a product only if the summation stays equal. The law `compiled_products_have_the_bits_of_eager_ones` in
//! `tests/laws/products.rs` checks this at lengths around all constants of this file.

use super::arrangement::Arrangement;
use super::loops::{Kernel, Loops};
use crate::base::instructions::{are_portable, have_fused};

/// The depth up to which all blocked kernels of `gemm` add in one order: they divide a longer depth into chunks.
const UNDIVIDED: usize = 512;

/// The depth up to which `gemm` adds the terms without a loop.
const PAIR: usize = 2;

/// The order in which a product adds the terms of each element. Products of equal factors with an equal summation have equal bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Summation {
    /// One term after the other, each rounded twice.
    Plain,
    /// At most two terms.
    Pair,
    /// One term after the other, with fused multiplications.
    Undivided,
    /// Chunks of the depth, whose lengths depend on the depth and on whether there are few rows and columns.
    Chunks(Kernel),
    /// Inner products of rows and columns that are contiguous in memory, with numbers of rows and columns.
    Inner([usize; 2]),
    /// The partial sums of a product with few rows or columns.
    Partial,
    /// Blocks of half-precision floats.
    Blocks,
}

impl Loops {
    /// Returns the order in which this product of floats adds the terms of an element.
    pub(crate) fn summation(&self, is_half: bool) -> Summation {
        let loops = match self.arrangement(is_half) {
            Arrangement::AsStored => self.clone(),
            Arrangement::Turned => self.turned(),
            Arrangement::Transposed => return self.transposed().summation(is_half),
        };
        let depth = loops.depth.length;
        match loops.kernel() {
            _ if are_portable() => Summation::Plain,
            Kernel::Thin if have_fused() => Summation::Partial,
            Kernel::Plain | Kernel::Thin => Summation::Plain,
            _ if is_half => Summation::Blocks,
            _ if loops.is_inner() => Summation::Inner([loops.rows.length, loops.columns.length]),
            _ if depth <= PAIR => Summation::Pair,
            _ if depth <= UNDIVIDED => Summation::Undivided,
            kernel => Summation::Chunks(kernel),
        }
    }
}
