//! Creating tensors.

use crate::base::dtype::DType;
use crate::base::error::{called, or_panic};
use crate::primitives::convert::convert;
use crate::primitives::create;
use crate::primitives::elementwise::compare;
use crate::tensor::Tensor;
use crate::tensor::elementwise::Comparison;

impl Tensor {
    /// A tensor of the given shape whose elements are all `value`; integers take it as `as` does.
    ///
    /// # Panics
    /// If nothing can address so many elements, or the system does not grant their memory.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{DType, Tensor};
    /// assert_eq!(Tensor::full(DType::F32, [2], 0.5), Tensor::from([0.5_f32, 0.5]));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn full(dtype: DType, shape: impl AsRef<[usize]>, value: f64) -> Self {
        or_panic(create::full(dtype, shape.as_ref(), value))
    }

    /// Zeros.
    ///
    /// # Panics
    /// If nothing can address so many elements, or the system does not grant their memory.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{DType, Tensor};
    /// assert_eq!(Tensor::zeros(DType::I32, [3]), Tensor::from([0, 0, 0]));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn zeros(dtype: DType, shape: impl AsRef<[usize]>) -> Self {
        let _called = called("zeros");
        Self::full(dtype, shape, 0.0)
    }

    /// Ones.
    ///
    /// # Panics
    /// If nothing can address so many elements, or the system does not grant their memory.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{DType, Tensor};
    /// assert_eq!(Tensor::ones(DType::F64, [2]), Tensor::from([1.0, 1.0]));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn ones(dtype: DType, shape: impl AsRef<[usize]>) -> Self {
        let _called = called("ones");
        Self::full(dtype, shape, 1.0)
    }

    /// Zeros with the element type and shape of a tensor.
    ///
    /// # Panics
    /// If the system does not grant the memory.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::zeros_like(&Tensor::from([1.0, 2.0])), Tensor::from([0.0, 0.0]));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn zeros_like(tensor: &Self) -> Self {
        let _called = called("zeros_like");
        Self::full_like(tensor, 0.0)
    }

    /// Ones with the element type and shape of a tensor.
    ///
    /// # Panics
    /// If the system does not grant the memory.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::ones_like(&Tensor::from([5, 6])), Tensor::from([1, 1]));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn ones_like(tensor: &Self) -> Self {
        let _called = called("ones_like");
        Self::full_like(tensor, 1.0)
    }

    /// A tensor with the element type and shape of another, whose elements are all `value`.
    ///
    /// # Panics
    /// If the system does not grant the memory.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::full_like(&Tensor::from([1.0, 2.0]), 3.0), Tensor::from([3.0, 3.0]));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn full_like(tensor: &Self, value: f64) -> Self {
        let _called = called("full_like");
        Self::full(tensor.dtype(), tensor.shape(), value)
    }

    /// The numbers from 0 to before `length`, as `[length]`.
    ///
    /// # Panics
    /// If the element type is bool or counts not so far, or there is no memory for so many elements.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{DType, Tensor};
    /// assert_eq!(Tensor::arange(DType::I32, 3), Tensor::from([0, 1, 2]));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn arange(dtype: DType, length: usize) -> Self {
        let _called = called("arange");
        Self::iota(dtype, [length], 0)
    }

    /// A tensor of the given shape whose elements are their position along `axis`.
    ///
    /// # Panics
    /// If the shape has no such axis, the element type is bool or counts not so far, or there is no memory for so many
    /// elements.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{DType, Tensor};
    /// assert_eq!(Tensor::iota(DType::I32, [2, 2], 1), Tensor::from([[0, 1], [0, 1]]));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn iota(dtype: DType, shape: impl AsRef<[usize]>, axis: usize) -> Self {
        let _called = called("iota");
        or_panic(create::iota(dtype, shape.as_ref(), axis))
    }

    /// The unit matrix, `[length, length]`.
    ///
    /// # Panics
    /// If nothing can address so many elements, or the system does not grant their memory.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{DType, Tensor};
    /// assert_eq!(Tensor::eye(DType::F32, 2), Tensor::from([[1.0_f32, 0.0], [0.0, 1.0]]));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn eye(dtype: DType, length: usize) -> Self {
        let _called = called("eye");
        let rows = Self::iota(DType::I32, [length, length], 0);
        let columns = Self::iota(DType::I32, [length, length], 1);
        or_panic(convert(
            &or_panic(compare(Comparison::Eq, &rows, &columns)),
            dtype,
        ))
    }
}
