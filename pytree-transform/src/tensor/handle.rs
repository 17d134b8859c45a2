//! The tensor: a handle to an array on the host, to an array on a device, or to a tracer.

use std::fmt;
use std::sync::Arc;

use ndarray::{Array as NdArray, ArrayD, ArrayViewD, Dimension, IxDyn};
use pytree_core::{ArrayLeaf, MappedAxis};
use pytree_derive::panicking_twin;
use pytree_kernels::base::array::{Array, fits_memory};
use pytree_kernels::base::dtype::{AbstractArray, ArrayElement, DType, with_type};

use crate::base::error::TensorError;
use crate::base::nested::TensorElement;
use crate::tensor::device::{Device, DeviceArray};
use crate::tensor::trace::{Payload, Tracer, mapped_axes};

/// An array of any shape and dtype. Inside a transformation, a tensor can be a tracer, which represents an array.
///
/// Clones share their elements. Operations return new tensors and never change a tensor. Dtypes are never promoted:
/// adding an `f32` tensor to an `f64` tensor is an error. A Rust number that is combined with a tensor takes the dtype
/// of the tensor. Shapes broadcast as in NumPy.
///
/// # Examples
/// ```
/// use pytree_transform::Tensor;
/// let x = Tensor::from([[1.0_f32, 2.0], [3.0, 4.0]]);
/// let y = x.matmul(&x) + 1.0;
/// assert_eq!(y.shape(), [2, 2]);
/// assert_eq!(y.to_vec::<f32>(), [8.0, 11.0, 16.0, 23.0]);
/// ```
#[doc(alias("jax.Array", "jnp.ndarray", "torch.Tensor"))]
#[derive(Clone)]
pub struct Tensor(Handle);

#[derive(Clone)]
enum Handle {
    Concrete(Arc<Array>),
    Traced(Arc<Tracer>),
    OnDevice(Arc<DeviceArray>),
}

impl Tensor {
    /// Creates a tensor of a shape from its elements in row-major order.
    ///
    /// # Panics
    /// Panics if the number of elements does not fit the shape. Also panics if the lengths of the axes are too large
    /// for memory, even if one length is 0.
    #[panicking_twin(new, Length | TooLarge)]
    pub fn try_new<T: TensorElement>(
        shape: impl AsRef<[usize]>,
        elements: impl Into<Vec<T>>,
    ) -> Result<Self, TensorError> {
        let (shape, elements) = (shape.as_ref(), elements.into());
        let info = AbstractArray::new(T::DTYPE, shape);
        if info.len() != elements.len() {
            return Err(TensorError::Length {
                shape: shape.to_vec(),
                found: elements.len(),
            });
        }
        if !fits_memory(&info) {
            return Err(TensorError::too_large("Tensor::new", &info));
        }
        Ok(Self::from_array(Array::new(shape, elements)))
    }

    /// Creates a tensor without axes from a single value.
    pub fn scalar<T: TensorElement>(value: T) -> Self {
        Self::from_array(Array::new([], vec![value]))
    }

    /// Creates a scalar constant of a dtype. The constant is never recorded as an equation. So displayed jaxprs write
    /// the value of the constant inline.
    pub(crate) fn constant(dtype: DType, value: f64) -> Self {
        with_type!(dtype, T => Self::scalar(<T as ArrayElement>::from_number(value)))
    }

    pub(crate) fn from_array(array: Array) -> Self {
        Self(Handle::Concrete(Arc::new(array)))
    }

    pub(crate) fn from_shared(array: Arc<Array>) -> Self {
        Self(Handle::Concrete(array))
    }

    pub(crate) fn traced(tracer: Arc<Tracer>) -> Self {
        Self(Handle::Traced(tracer))
    }

    pub(crate) fn on_device(array: Arc<DeviceArray>) -> Self {
        Self(Handle::OnDevice(array))
    }

    /// Returns the array of a tensor on the host, or `None` if the tensor is traced or on a device. Never transfers
    /// elements; see [`value`](Self::value).
    pub(crate) fn array(&self) -> Option<&Arc<Array>> {
        match &self.0 {
            Handle::Concrete(array) => Some(array),
            Handle::Traced(_) | Handle::OnDevice(_) => None,
        }
    }

    /// Returns the array of a tensor on the host by value, or `None` if the tensor is traced or on a device.
    pub(crate) fn into_array(self) -> Option<Arc<Array>> {
        match self.0 {
            Handle::Concrete(array) => Some(array),
            Handle::Traced(_) | Handle::OnDevice(_) => None,
        }
    }

    /// Returns the array of a tensor on a device, or `None` if the tensor is traced or on the host.
    pub(crate) fn device_array(&self) -> Option<&Arc<DeviceArray>> {
        match &self.0 {
            Handle::OnDevice(array) => Some(array),
            Handle::Concrete(_) | Handle::Traced(_) => None,
        }
    }

    /// Returns the tracer, or `None` if the tensor is not traced.
    pub(crate) fn tracer(&self) -> Option<&Tracer> {
        match &self.0 {
            Handle::Concrete(_) | Handle::OnDevice(_) => None,
            Handle::Traced(tracer) => Some(tracer),
        }
    }

    /// Returns whether two tensors are handles of the same array, as clones of a tensor are. `==` compares the elements.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// let x = Tensor::from([1.0, 2.0]);
    /// assert!(x.same(&x.clone()));
    /// assert!(!x.same(&Tensor::from([1.0, 2.0])));
    /// ```
    pub fn same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Handle::Concrete(left), Handle::Concrete(right)) => Arc::ptr_eq(left, right),
            (Handle::Traced(left), Handle::Traced(right)) => Arc::ptr_eq(left, right),
            (Handle::OnDevice(left), Handle::OnDevice(right)) => Arc::ptr_eq(left, right),
            _ => false,
        }
    }

    /// Returns the address of the array or tracer. While two tensors exist, their addresses are equal if and only if
    /// both tensors refer to the same array or tracer.
    pub(crate) fn handle(&self) -> usize {
        match &self.0 {
            Handle::Concrete(array) => Arc::as_ptr(array).addr(),
            Handle::Traced(tracer) => Arc::as_ptr(tracer).addr(),
            Handle::OnDevice(array) => Arc::as_ptr(array).addr(),
        }
    }

    /// Returns the dtype and the shape of the tensor.
    #[inline]
    pub fn info(&self) -> &AbstractArray {
        match &self.0 {
            Handle::Concrete(array) => &array.info,
            Handle::Traced(tracer) => &tracer.info,
            Handle::OnDevice(array) => &array.info,
        }
    }

    /// Returns the length of each axis.
    #[doc(alias = "jnp.shape")]
    #[inline]
    pub fn shape(&self) -> &[usize] {
        &self.info().shape
    }

    /// Returns the dtype of the elements.
    #[doc(alias = "torch.Tensor.dtype")]
    #[inline]
    pub fn dtype(&self) -> DType {
        self.info().dtype
    }

    /// Returns the number of axes.
    #[doc(alias("jnp.ndim", "torch.Tensor.dim"))]
    pub fn rank(&self) -> usize {
        self.info().rank()
    }

    /// Returns the number of elements.
    #[doc(alias("jnp.size", "torch.numel"))]
    pub fn len(&self) -> usize {
        self.info().len()
    }

    /// Returns whether the tensor has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether the tensor is traced by `jit`, `vmap` or `grad`.
    pub fn is_traced(&self) -> bool {
        self.tracer().is_some()
    }

    /// Returns the device of the tensor. Under `grad` and `vmap`, returns the device of the current values.
    ///
    /// # Panics
    /// Panics under `jit`, because a compiled function may run on any device.
    #[doc(alias = "torch.Tensor.device")]
    #[panicking_twin(device, Traced)]
    pub fn try_device(&self) -> Result<&Device, TensorError> {
        match &self.0 {
            Handle::Concrete(_) => Ok(&Device::HOST),
            Handle::OnDevice(array) => Ok(&array.device),
            Handle::Traced(tracer) => match &tracer.payload {
                Payload::Jvp { primal, .. } => primal.try_device(),
                Payload::Batch { value, .. } => value.try_device(),
                Payload::Tape(_) | Payload::Stage(..) => Err(no_value(tracer)),
            },
        }
    }

    /// Returns the device of a tensor, or `None` if the tensor is on the host or recorded. Under `grad` and `vmap`,
    /// returns the device of the current values.
    pub(crate) fn placed_on(&self) -> Option<&Device> {
        match &self.0 {
            Handle::Concrete(_) => None,
            Handle::OnDevice(array) => Some(&array.device),
            Handle::Traced(tracer) => match &tracer.payload {
                Payload::Jvp { primal: value, .. } | Payload::Batch { value, .. } => {
                    value.placed_on()
                }
                Payload::Tape(_) | Payload::Stage(..) => None,
            },
        }
    }

    /// Returns the same tensor on the host. Waits until the elements are computed. Transfers the elements if they were
    /// not read before. A tensor on the host is returned unchanged.
    ///
    /// # Panics
    /// Panics under `jit` and `vmap`, and if the device reports an error.
    #[panicking_twin(to_host, Traced | Device)]
    pub fn try_to_host(&self) -> Result<Self, TensorError> {
        self.value().cloned().map(Self::from_shared)
    }

    /// Returns the array of a tensor on a device. Returns the tensor itself if the tensor is on the host or traced.
    pub(crate) fn into_device_array(self) -> Result<Arc<DeviceArray>, Self> {
        match self.0 {
            Handle::OnDevice(array) => Ok(array),
            other => Err(Self(other)),
        }
    }

    /// Waits until the elements are computed, without a transfer. Returns immediately for a tensor on the host and for
    /// a traced tensor.
    pub(crate) fn wait_until_computed(&self) -> Result<(), TensorError> {
        match &self.0 {
            Handle::OnDevice(array) => array.wait(),
            Handle::Concrete(_) | Handle::Traced(_) => Ok(()),
        }
    }

    /// Returns the array of a tensor's value on the host. Under `grad`, returns the value of the primal. The elements
    /// of a tensor on a device are transferred when they are first read.
    pub(crate) fn value(&self) -> Result<&Arc<Array>, TensorError> {
        match &self.0 {
            Handle::Concrete(array) => Ok(array),
            Handle::OnDevice(array) => array.host(),
            Handle::Traced(tracer) => match &tracer.payload {
                Payload::Jvp { primal, .. } => primal.value(),
                _ => Err(no_value(tracer)),
            },
        }
    }

    /// Returns the only element of a tensor, for printing or for Rust's `if`.
    ///
    /// Under `grad`, returns the current value. Under `jit` and `vmap`, the value is not known.
    ///
    /// # Panics
    /// Panics if the tensor does not have exactly one element or if the element has another type. Panics under `jit`
    /// and `vmap`.
    #[doc(alias = "torch.Tensor.item")]
    #[panicking_twin(item, Shape | Read | Traced | Device)]
    pub fn try_item<T: TensorElement>(&self) -> Result<T, TensorError> {
        if self.len() != 1 {
            return Err(TensorError::Shape {
                operation: "read the only element of",
                found: vec![self.info().clone()],
                problem: format!("it has {} elements", self.len()),
                fix: "reduce the tensor first, for instance with `.sum()`, or read all elements with `.to_vec()`"
                    .to_owned(),
            });
        }
        self.read::<T>().map(|elements| elements[0])
    }

    /// Returns the elements in row-major order.
    ///
    /// # Panics
    /// Panics if the elements have another type. Panics under `jit` and `vmap`.
    #[doc(alias = "torch.Tensor.tolist")]
    #[panicking_twin(to_vec, Read | Traced | Device)]
    pub fn try_to_vec<T: TensorElement>(&self) -> Result<Vec<T>, TensorError> {
        let elements = self.read::<T>()?;
        let mut copy = Vec::new();
        let granted = copy.try_reserve_exact(elements.len());
        granted.map_err(|_| TensorError::too_large("to_vec", self.info()))?;
        copy.extend_from_slice(elements);
        Ok(copy)
    }

    /// Returns the elements by reference, in row-major order.
    ///
    /// # Errors
    /// Returns [`TensorError::Read`] if the elements have another type. Returns [`TensorError::Traced`] under `jit` and
    /// `vmap`.
    pub fn read<T: TensorElement>(&self) -> Result<&[T], TensorError> {
        T::slice(self.value()?.data()).ok_or_else(|| TensorError::Read {
            expected: T::DTYPE,
            found: self.info().clone(),
        })
    }

    /// Returns the tensor as an array of ndarray, by reference.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`read`](Self::read).
    pub fn view<T: TensorElement>(&self) -> Result<ArrayViewD<'_, T>, TensorError> {
        let elements = self.read::<T>()?;
        ArrayViewD::from_shape(IxDyn(self.shape()), elements).map_err(|_| TensorError::Length {
            shape: self.shape().to_vec(),
            found: elements.len(),
        })
    }

    /// Returns the tensor as an owned array of ndarray.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`read`](Self::read).
    #[doc(alias("np.asarray", "torch.Tensor.numpy"))]
    pub fn to_ndarray<T: TensorElement>(&self) -> Result<ArrayD<T>, TensorError> {
        self.view::<T>().map(|view| view.to_owned())
    }
}

fn no_value(tracer: &Tracer) -> TensorError {
    let (stands_for, fix) = match tracer.payload {
        Payload::Batch { .. } => (
            "all values of the batch at once",
            "use `select` to choose between values, `cond` to choose between computations, or `while_loop` to repeat a computation, or map only the parts of the function that do not depend on the value",
        ),
        _ => (
            "a value that is known only when the compiled function runs",
            "use `select` to choose between values, `cond` to choose between computations, or `while_loop` to repeat a computation, or make the deciding value a static field, or move this code out of the compiled function",
        ),
    };
    TensorError::Traced {
        found: tracer.info.clone(),
        transformation: tracer.transformation(),
        stands_for,
        fix,
    }
}

impl<T: TensorElement, D: Dimension> From<NdArray<T, D>> for Tensor {
    fn from(array: NdArray<T, D>) -> Self {
        let shape = array.shape().to_vec();
        let elements = if array.is_standard_layout() {
            let (elements, offset) = array.into_raw_vec_and_offset();
            let length: usize = shape.iter().product();
            match offset {
                Some(offset) if offset > 0 || elements.len() != length => {
                    elements[offset..offset + length].to_vec()
                }
                _ => elements,
            }
        } else {
            array.iter().copied().collect()
        };
        Self::from_array(Array::new(shape, elements))
    }
}

pytree_base::conversions! { Tensor:
    [T: TensorElement, D: Dimension] ndarray::ArrayView<'_, T, D>,
        |array| Self::from_array(Array::new(array.shape(), array.iter().copied().collect()));
    [T: TensorElement] T, |value| Self::scalar(value);
}

impl PartialEq for Tensor {
    /// Returns whether two tensors have the same dtype, shape and elements. Under `grad`, compares the current values.
    ///
    /// # Panics
    /// Panics under `jit` and `vmap`, where values are not known. Does not panic if the tensors differ in dtype or
    /// shape, or if both are handles of one tensor. Under `jit` and `vmap`, compare with [`equal`](Self::equal) and
    /// choose with [`select`](Self::select).
    #[track_caller]
    fn eq(&self, other: &Self) -> bool {
        if self.same(other) && self.is_traced() {
            return true;
        }
        if self.info() != other.info() {
            return false;
        }
        match (self.value(), other.value()) {
            (Ok(left), Ok(right)) => left == right,
            (Err(error), _) | (_, Err(error)) => {
                panic!(
                    "cannot compare tensors by `==`: {error}; or use `.equal(&other)` instead of `==`"
                )
            }
        }
    }
}

impl pytree_core::Leaf for Tensor {
    pytree_core::__leaf_methods!();
    #[inline]
    fn as_array(&self) -> Option<&dyn ArrayLeaf> {
        Some(self)
    }
    fn mapped_axes(&self) -> Vec<MappedAxis> {
        mapped_axes(self)
    }
    fn values(&self) -> Option<Vec<f64>> {
        self.value().ok().map(|array| array.data().to_f64())
    }
    fn storage_identity(&self) -> Option<usize> {
        (!self.is_traced()).then(|| self.handle())
    }
    fn display(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
pytree_core::__leaf_is_pytree!([] Tensor);
pytree_core::leaf_field!(param Tensor);
impl pytree_core::SelectPart<Tensor> for Tensor {
    type Part = Self;
    fn select_part(tree: pytree_core::Tree<Self>) -> Result<Self, pytree_core::TreeError> {
        let (leaves, treedef) = tree.into_parts();
        leaves
            .into_iter()
            .next()
            .ok_or_else(|| pytree_core::TreeError::LeafCount {
                doing: "cannot unflatten",
                expected: 1,
                found: 0,
                first_missing: treedef.leaf_paths().into_iter().next(),
            })
    }
}
