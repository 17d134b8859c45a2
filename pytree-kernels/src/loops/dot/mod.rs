//! Tensor products, which multiply two arrays and sum over pairs of axes. Other pairs of axes may be batch axes.

mod general;
pub(crate) mod matrix_product;
mod operands;
mod quantized;
pub mod slices;

pub use self::general::{DotGeneral, Side};
pub(crate) use self::matrix_product::Factor;
pub use self::matrix_product::Summation;
pub(crate) use self::operands::DotOperands;
