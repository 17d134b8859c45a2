//! Functions of tensors that layers and losses use.

mod activations;
mod gamma;
mod integers;
mod normalizations;
pub(crate) mod rounding;

pub use self::{activations::*, gamma::*, normalizations::*};

pub(crate) use gamma::log_factorial;
pub(crate) use integers::wide_integers;
pub(crate) use normalizations::shift;
