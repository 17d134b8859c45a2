//! Constructors of tensors, for instance zeros, ranges and identity matrices.

use pytree_base::bug::expect_next;
use pytree_kernels::base::dtype::{AbstractArray, DType};
use pytree_kernels::loops::elementwise::Comparison;

use crate::base::error::{called, or_panic};
use crate::executor::compile;
use crate::operations::axes::axis_of;
use crate::primitives::body::Body;
use crate::primitives::call::call;
use crate::primitives::convert::convert;
use crate::primitives::create;
use crate::primitives::elementwise::compare;
use crate::primitives::sharding::sharding_constraint;
use crate::tensor::Tensor;
use crate::tensor::device::{Sharding, beside, on_host};
use crate::tensor::scalar::Scalar;
use crate::tensor::stage::stage;
use crate::tensor::trace::{Recorder, check_creation};

impl Tensor {
    /// Returns a tensor of the given dtype and shape with all elements equal to `value`, which is a Rust number or bool.
    ///
    /// An integer dtype holds a Rust integer exactly. A Rust float is converted to an integer dtype like Rust's `as`: it
    /// is rounded toward zero and limited to the range of the dtype. For the dtype bool, every number but 0 is true.
    ///
    /// # Panics
    /// Panics if:
    /// - `value` is a Rust integer that an integer dtype cannot hold
    /// - the size overflows, or the allocation fails
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{DType, Tensor};
    /// assert_eq!(Tensor::full(DType::F32, [2], 0.5), Tensor::from([0.5_f32, 0.5]));
    /// assert_eq!(Tensor::full(DType::Bool, [2], true), Tensor::from([true, true]));
    /// assert_eq!(Tensor::full(DType::I64, [1], i64::MAX), Tensor::from([i64::MAX]));
    /// ```
    #[doc(alias("jnp.full", "torch.full"))]
    #[must_use]
    #[track_caller]
    pub fn full(dtype: DType, shape: impl AsRef<[usize]>, value: impl Into<Scalar>) -> Self {
        or_panic(create::filled(dtype, shape.as_ref(), value.into()))
    }

    /// Returns a tensor of zeros with the given dtype and shape.
    ///
    /// # Panics
    /// Panics if the size overflows, or if the allocation fails.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{DType, Tensor};
    /// assert_eq!(Tensor::zeros(DType::I32, [3]), Tensor::from([0, 0, 0]));
    /// ```
    #[doc(alias("jnp.zeros", "torch.zeros"))]
    #[must_use]
    #[track_caller]
    pub fn zeros(dtype: DType, shape: impl AsRef<[usize]>) -> Self {
        let _called = called("zeros");
        Self::full(dtype, shape, 0.0)
    }

    /// Returns a tensor of ones with the given dtype and shape.
    ///
    /// # Panics
    /// Panics if the size overflows, or if the allocation fails.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{DType, Tensor};
    /// assert_eq!(Tensor::ones(DType::F64, [2]), Tensor::from([1.0, 1.0]));
    /// ```
    #[doc(alias("jnp.ones", "torch.ones"))]
    #[must_use]
    #[track_caller]
    pub fn ones(dtype: DType, shape: impl AsRef<[usize]>) -> Self {
        let _called = called("ones");
        Self::full(dtype, shape, 1.0)
    }

    /// Returns zeros with the dtype and shape of `tensor`.
    ///
    /// # Panics
    /// Panics if the allocation fails.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::zeros_like(&Tensor::from([1.0, 2.0])), Tensor::from([0.0, 0.0]));
    /// ```
    #[doc(alias("jnp.zeros_like", "torch.zeros_like"))]
    #[must_use]
    #[track_caller]
    pub fn zeros_like(tensor: &Self) -> Self {
        let _called = called("zeros_like");
        Self::full_like(tensor, 0.0)
    }

    /// Returns ones with the dtype and shape of `tensor`.
    ///
    /// # Panics
    /// Panics if the allocation fails.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::ones_like(&Tensor::from([5, 6])), Tensor::from([1, 1]));
    /// ```
    #[doc(alias("jnp.ones_like", "torch.ones_like"))]
    #[must_use]
    #[track_caller]
    pub fn ones_like(tensor: &Self) -> Self {
        let _called = called("ones_like");
        Self::full_like(tensor, 1.0)
    }

    /// Returns a tensor with the dtype, the shape and the device of `tensor` and all elements equal to `value`, like
    /// [`full`](Self::full). On a mesh, the result is also divided like `tensor`.
    ///
    /// # Panics
    /// Panics if `value` is a Rust integer that an integer dtype cannot hold, or if the allocation fails.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::full_like(&Tensor::from([1.0, 2.0]), 3.0), Tensor::from([3.0, 3.0]));
    /// ```
    #[doc(alias("jnp.full_like", "torch.full_like"))]
    #[must_use]
    #[track_caller]
    pub fn full_like(tensor: &Self, value: impl Into<Scalar>) -> Self {
        let value = value.into();
        let _called = called("full_like");
        let _device = beside([tensor]);
        match tensor.sharding() {
            Some(sharding) if !sharding.is_replicated() => divided(tensor, value, sharding),
            _ => Self::full(tensor.dtype(), tensor.shape(), value),
        }
    }

    /// Returns the numbers 0, 1, …, `length - 1` as a tensor of shape `[length]`.
    ///
    /// # Panics
    /// Panics if the dtype is bool or cannot hold the largest number, or if the allocation fails.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{DType, Tensor};
    /// assert_eq!(Tensor::arange(DType::I32, 3), Tensor::from([0, 1, 2]));
    /// ```
    #[doc(alias("jnp.arange", "torch.arange"))]
    #[must_use]
    #[track_caller]
    pub fn arange(dtype: DType, length: usize) -> Self {
        let _called = called("arange");
        Self::iota(dtype, [length], 0)
    }

    /// Returns a tensor of the given shape in which each element is its position along `axis`. A negative axis counts
    /// from the end.
    ///
    /// # Panics
    /// Panics if:
    /// - `axis` is out of range
    /// - the dtype is bool or cannot hold the largest position
    /// - the allocation fails
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{DType, Tensor};
    /// assert_eq!(Tensor::iota(DType::I32, [2, 2], -1), Tensor::from([[0, 1], [0, 1]]));
    /// ```
    #[doc(alias("lax.broadcasted_iota", "lax.iota"))]
    #[must_use]
    #[track_caller]
    pub fn iota(dtype: DType, shape: impl AsRef<[usize]>, axis: isize) -> Self {
        let _called = called("iota");
        let found = AbstractArray::new(dtype, shape);
        let axis = or_panic(axis_of("iota", &found, axis));
        or_panic(create::iota(dtype, &found.shape, axis))
    }

    /// Returns the identity matrix of shape `[length, length]`.
    ///
    /// # Panics
    /// Panics if the size overflows, or if the allocation fails.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::{DType, Tensor};
    /// assert_eq!(Tensor::eye(DType::F32, 2), Tensor::from([[1.0_f32, 0.0], [0.0, 1.0]]));
    /// ```
    #[doc(alias("jnp.eye", "jnp.identity", "torch.eye"))]
    #[must_use]
    #[track_caller]
    pub fn eye(dtype: DType, length: usize) -> Self {
        let _called = called("eye");
        let result = AbstractArray::new(dtype, [length, length]);
        or_panic(check_creation("eye", &result));
        let rows = Self::iota(DType::I32, [length, 1], 0);
        let columns = Self::iota(DType::I32, [1, length], 1);
        or_panic(convert(
            &or_panic(compare(Comparison::Eq, &rows, &columns)),
            dtype,
        ))
    }
}

/// Returns a tensor that is filled with `value` and divided among the devices of a mesh like `tensor`. The creation and the
/// division are one program, so no device holds all elements.
#[track_caller]
fn divided(tensor: &Tensor, value: Scalar, sharding: &Sharding) -> Tensor {
    let device = or_panic(tensor.try_device());
    if !device.divides_programs() {
        let _host = on_host();
        let whole = Tensor::full(tensor.dtype(), tensor.shape(), value);
        return or_panic(device.put_sharded(&whole, sharding));
    }
    let (jaxpr, _, ()) = stage(Recorder::Jit, &[], |_| {
        let whole = Tensor::full(tensor.dtype(), tensor.shape(), value);
        let divided = or_panic(sharding_constraint(&whole, &sharding.spec()));
        (vec![divided], ())
    });
    let body = Body::named(Recorder::Jit, "full_like".to_owned(), jaxpr, compile);
    let mut results = call(&body, &[]).into_iter();
    expect_next(&mut results, "the result of a program with one output")
}
