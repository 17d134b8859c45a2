//! Random bits.
use crate::error::TensorError;
use crate::tensor::Tensor;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Threefry2x32;
#[track_caller]
pub(crate) fn threefry2x32(_key0: &Tensor, _key1: &Tensor, _count0: &Tensor, _count1: &Tensor) -> Result<(Tensor, Tensor), TensorError> { unimplemented!() }
