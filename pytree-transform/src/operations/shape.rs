//! Shapes.
use crate::dtype::DType;
use crate::error::TensorError;
use crate::tensor::Tensor;

#[allow(unused_variables)]
impl Tensor {
    #[track_caller]
    pub fn reshape(&self, shape: impl AsRef<[usize]>) -> Self { unimplemented!() }
    #[track_caller]
    pub fn try_reshape(&self, shape: impl AsRef<[usize]>) -> Result<Self, TensorError> { unimplemented!() }
    #[track_caller]
    pub fn flatten(&self) -> Self { unimplemented!() }
    #[track_caller]
    pub fn t(&self) -> Self { unimplemented!() }
    #[track_caller]
    pub fn transpose(&self, permutation: impl AsRef<[usize]>) -> Self { unimplemented!() }
    #[track_caller]
    pub fn try_transpose(&self, permutation: impl AsRef<[usize]>) -> Result<Self, TensorError> { unimplemented!() }
    #[track_caller]
    pub fn move_axis(&self, from: isize, to: isize) -> Self { unimplemented!() }
    #[track_caller]
    pub fn expand_dims(&self, axis: isize) -> Self { unimplemented!() }
    #[track_caller]
    pub fn squeeze(&self, axis: isize) -> Self { unimplemented!() }
    #[track_caller]
    pub fn broadcast_to(&self, shape: impl AsRef<[usize]>) -> Self { unimplemented!() }
    #[track_caller]
    pub fn try_broadcast_to(&self, shape: impl AsRef<[usize]>) -> Result<Self, TensorError> { unimplemented!() }
    #[track_caller]
    pub fn stack(tensors: &[Self], axis: isize) -> Self { unimplemented!() }
    #[track_caller]
    pub fn try_stack(tensors: &[Self], axis: isize) -> Result<Self, TensorError> { unimplemented!() }
    #[track_caller]
    pub fn concatenate(tensors: &[Self], axis: isize) -> Self { unimplemented!() }
    #[track_caller]
    pub fn try_concatenate(tensors: &[Self], axis: isize) -> Result<Self, TensorError> { unimplemented!() }
    #[track_caller]
    pub fn full(dtype: DType, shape: impl AsRef<[usize]>, value: f64) -> Self { unimplemented!() }
    #[track_caller]
    pub fn zeros(dtype: DType, shape: impl AsRef<[usize]>) -> Self { unimplemented!() }
    #[track_caller]
    pub fn ones(dtype: DType, shape: impl AsRef<[usize]>) -> Self { unimplemented!() }
    #[track_caller]
    pub fn zeros_like(tensor: &Self) -> Self { unimplemented!() }
    #[track_caller]
    pub fn ones_like(tensor: &Self) -> Self { unimplemented!() }
    #[track_caller]
    pub fn full_like(tensor: &Self, value: f64) -> Self { unimplemented!() }
    #[track_caller]
    pub fn arange(dtype: DType, length: usize) -> Self { unimplemented!() }
    #[track_caller]
    pub fn iota(dtype: DType, shape: impl AsRef<[usize]>, axis: usize) -> Self { unimplemented!() }
    #[track_caller]
    pub fn eye(dtype: DType, length: usize) -> Self { unimplemented!() }
}
