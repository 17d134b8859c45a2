//! Products.
use crate::error::TensorError;
use crate::tensor::Tensor;

#[allow(unused_variables)]
impl Tensor {
    #[track_caller]
    pub fn matmul(&self, right: &Self) -> Self { unimplemented!() }
    #[track_caller]
    pub fn try_matmul(&self, right: &Self) -> Result<Self, TensorError> { unimplemented!() }
}
