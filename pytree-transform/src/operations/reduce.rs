//! Reductions.
use crate::error::TensorError;
use crate::tensor::Tensor;

#[allow(unused_variables)]
impl Tensor {
    #[track_caller]
    pub fn sum(&self) -> Self { unimplemented!() }
    #[track_caller]
    pub fn sum_axes(&self, axes: impl AsRef<[isize]>) -> Self { unimplemented!() }
    #[track_caller]
    pub fn try_sum_axes(&self, axes: impl AsRef<[isize]>) -> Result<Self, TensorError> { unimplemented!() }
    #[track_caller]
    pub fn sum_keep(&self, axes: impl AsRef<[isize]>) -> Self { unimplemented!() }
    #[track_caller]
    pub fn mean(&self) -> Self { unimplemented!() }
    #[track_caller]
    pub fn mean_axes(&self, axes: impl AsRef<[isize]>) -> Self { unimplemented!() }
    #[track_caller]
    pub fn mean_keep(&self, axes: impl AsRef<[isize]>) -> Self { unimplemented!() }
    #[track_caller]
    pub fn max(&self) -> Self { unimplemented!() }
    #[track_caller]
    pub fn max_axes(&self, axes: impl AsRef<[isize]>) -> Self { unimplemented!() }
    #[track_caller]
    pub fn max_keep(&self, axes: impl AsRef<[isize]>) -> Self { unimplemented!() }
    #[track_caller]
    pub fn argmax(&self, axis: isize) -> Self { unimplemented!() }
    #[track_caller]
    pub fn variance_axes(&self, axes: impl AsRef<[isize]>) -> Self { unimplemented!() }
}
