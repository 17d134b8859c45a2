//! Reading and adding at indices.
use crate::error::TensorError;
use crate::tensor::Tensor;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Take { pub(crate) axis: usize, pub(crate) batch_axes: usize }
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScatterAdd { pub(crate) axis: usize, pub(crate) length: usize, pub(crate) batch_axes: usize }
#[track_caller]
pub(crate) fn take(_operand: &Tensor, _indices: &Tensor, _axis: usize) -> Result<Tensor, TensorError> { unimplemented!() }
