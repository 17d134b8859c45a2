//! The order in which a product adds the terms of an element.
//!
//! The crate `gemm` chooses its kernel by the lengths and also by the strides, and its kernels add in different orders. So a product
//! may round differently after an operand was transposed in memory. [`Loops::summation`] repeats this choice. A pass may change
//! the strides of a product only if the summation stays equal. The law `compiled_products_have_the_bits_of_eager_ones` in
//! `tests/laws/products.rs` checks this at lengths around all constants of this file.

use super::loops::{Kernel, LoopAxis, Loops};
use super::{Arrangement, are_portable};

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
    /// Another order, which depends on the numbers of rows and columns.
    Of(Route, [usize; 2]),
}

/// The function of `gemm` that computes a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Inner products of rows and columns that are contiguous in memory, for a small result.
    Inner,
    /// A matrix-vector product that adds multiples of the contiguous columns of the matrix.
    Columns,
    /// A matrix-vector product of inner products with the contiguous rows of the matrix.
    Rows,
    /// Chunks of the depth.
    Chunks,
}

impl Loops {
    /// Returns the order in which this product of floats adds the terms of an element.
    pub(crate) fn summation(&self) -> Summation {
        let loops = match self.arrangement() {
            Arrangement::AsStored => self.clone(),
            Arrangement::Turned => self.turned(),
            Arrangement::Transposed => return self.transposed().summation(),
        };
        let kernel = if are_portable() {
            Kernel::Plain
        } else {
            loops.kernel()
        };
        let Loops {
            rows,
            columns,
            depth,
            ..
        } = loops;
        let route = match kernel {
            Kernel::Plain => return Summation::Plain,
            _ if loops.is_inner() => Route::Inner,
            _ if depth.length <= PAIR => return Summation::Pair,
            Kernel::Vector if rows.length == 1 => vector_route(columns, columns.right, depth),
            Kernel::Vector => vector_route(rows, rows.left, depth),
            Kernel::Inner | Kernel::Few | Kernel::Blocked => Route::Chunks,
        };
        match (route, kernel) {
            (Route::Chunks, _) if depth.length <= UNDIVIDED => Summation::Undivided,
            (Route::Chunks, Kernel::Few | Kernel::Blocked) => Summation::Chunks(kernel),
            _ => Summation::Of(route, [rows.length, columns.length]),
        }
    }
}

/// Returns the function for the product of a vector and a matrix. `stride` is the stride of the matrix along `axis`, which is the
/// axis that is not contracted.
fn vector_route(axis: LoopAxis, stride: usize, depth: LoopAxis) -> Route {
    if stride == 1 && axis.result == 1 {
        Route::Columns
    } else if depth.left == 1 && depth.right == 1 {
        Route::Rows
    } else {
        Route::Chunks
    }
}
