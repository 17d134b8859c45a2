//! Functions of tensors that layers and losses use.

mod activations;
mod gamma;
mod integers;
mod normalizations;

pub use activations::{
    celu, elu, gelu, gelu_exact, glu, hard_sigmoid, hard_silu, hard_tanh, leaky_relu, log_sigmoid,
    mish, relu, relu6, selu, sigmoid, silu, soft_sign, softplus, squareplus,
};
pub(crate) use gamma::log_factorial;
pub use gamma::{digamma, lgamma, polygamma, sinc};
pub(crate) use integers::wide_integers;
pub(crate) use normalizations::shift;
pub use normalizations::{log_softmax, logsumexp, softmax, standardize};
