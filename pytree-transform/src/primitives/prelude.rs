//! The vocabulary of the rules of a primitive. A file with rules imports all of it.

pub(crate) use std::fmt;

pub(crate) use pytree_kernels::base::array::{Array, Operands};
pub(crate) use pytree_kernels::base::dtype::{AbstractArray, DType};
pub(crate) use smallvec::smallvec;

pub(crate) use crate::base::error::{TensorError, or_panic};
pub(crate) use crate::tensor::Tensor;
pub(crate) use crate::tensor::primitive::{
    AbstractResults, BatchAxis, Batched, Cotangents, Infos, Linear, Lowered, Outputs, Primitive,
    WithTangents, not_linear, one, take,
};
pub(crate) use crate::tensor::stablehlo::{Block, Value};
pub(crate) use crate::tensor::trace::{alone, bind_one};
