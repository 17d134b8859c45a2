//! Indexing.
use crate::dtype::DType;
use crate::error::TensorError;
use crate::tensor::Tensor;

#[allow(unused_variables)]
impl Tensor {
    #[track_caller]
    pub fn take(&self, indices: &Self, axis: isize) -> Self { unimplemented!() }
    #[track_caller]
    pub fn try_take(&self, indices: &Self, axis: isize) -> Result<Self, TensorError> { unimplemented!() }
    #[track_caller]
    pub fn one_hot(&self, classes: usize, dtype: DType) -> Self { unimplemented!() }
}

/// One axis of an index expression.
#[derive(Clone, Debug)]
pub struct Index;
/// A range with a step.
#[derive(Clone, Debug)]
pub struct Step<R>(pub R, pub isize);
