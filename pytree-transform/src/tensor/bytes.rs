//! The elements of tensors as bytes.

use std::borrow::Cow;
use std::sync::Arc;

use pytree_core::leaf::{ArrayLeaf, LeafError, ReadRegion};
use pytree_core::{ArrayInfo, Leaf};
use pytree_derive::panicking_twin;
use pytree_kernels::base::array::Array;
use pytree_kernels::base::bits::{Bits, with_bits};
use pytree_kernels::base::dtype::{AbstractArray, DType};

use crate::base::error::TensorError;
use crate::tensor::handle::Tensor;
use crate::tensor::trace::check_creation;

impl Tensor {
    /// Returns the elements as bytes, in row-major order and in the byte order of the host. A bool is 0 or 1. Waits for the
    /// elements of a tensor on a device.
    ///
    /// # Panics
    /// Panics under `jit` and `vmap`, and if the device fails.
    ///
    /// # Examples
    /// ```
    /// # use pytree_transform::Tensor;
    /// let x = Tensor::from([1_i32, 256]);
    /// assert_eq!(x.bytes(), [1_i32.to_ne_bytes(), 256_i32.to_ne_bytes()].concat());
    /// ```
    #[doc(alias = "np.ndarray.tobytes")]
    #[panicking_twin(bytes, Traced | Device)]
    pub fn try_bytes(&self) -> Result<&[u8], TensorError> {
        let array = self.value()?;
        Ok(with_bits!(array.dtype(), T => bytemuck::cast_slice(array.bits::<T>())))
    }
}

impl ArrayLeaf for Tensor {
    #[inline]
    fn info(&self) -> ArrayInfo<&[usize]> {
        ArrayInfo {
            element: self.dtype().element(),
            shape: self.shape(),
        }
    }
    fn bytes(&self) -> Result<Cow<'_, [u8]>, LeafError> {
        Ok(Cow::Borrowed(self.try_bytes()?))
    }
    /// Reads only the parts that devices of this process hold, one after the other.
    fn refilled(&self, read: &mut ReadRegion<'_>) -> Result<Box<dyn Leaf>, LeafError> {
        let refilled: Result<Self, LeafError> = self.try_refilled(|region| {
            let shape: Vec<usize> = region.iter().map(ExactSizeIterator::len).collect();
            let mut buffer = TensorBuffer::new(&AbstractArray::new(self.dtype(), shape))?;
            read(region, buffer.bytes_mut())?;
            Ok(buffer.into_tensor())
        });
        Ok(Box::new(refilled?))
    }
}

/// The memory of a new tensor on the host, whose elements are written as bytes. So a reader of a file or a device writes the
/// elements where the tensor has them, without a copy.
///
/// # Examples
/// ```
/// # use pytree_transform::{AbstractArray, DType, Tensor, extend::TensorBuffer};
/// let mut buffer = TensorBuffer::new(&AbstractArray::new(DType::F32, [2]))?;
/// buffer.bytes_mut()[4..].copy_from_slice(&1.5_f32.to_ne_bytes());
/// assert_eq!(buffer.into_tensor(), Tensor::from([0.0_f32, 1.5]));
/// # Ok::<(), pytree_transform::TensorError>(())
/// ```
#[doc(alias = "np.frombuffer")]
#[derive(Debug)]
pub struct TensorBuffer {
    dtype: DType,
    /// The elements. A bool is a byte, which may have any value before the tensor is built.
    array: Array,
}

impl TensorBuffer {
    /// Returns memory for a tensor with a dtype and a shape, filled with zeros.
    ///
    /// # Errors
    /// Returns [`TensorError::TooLarge`] if the elements cannot be addressed, or the system has too little memory.
    pub fn new(info: &AbstractArray) -> Result<Self, TensorError> {
        check_creation("TensorBuffer::new", info)?;
        let stored = match info.dtype {
            DType::Bool => DType::U8,
            dtype => dtype,
        };
        let array = Array::zeros(&AbstractArray::new(stored, &info.shape));
        Ok(Self {
            dtype: info.dtype,
            array,
        })
    }

    /// Returns the bytes of the elements in row-major order and in the byte order of the host. For a bool, each byte but 0 is
    /// `true`.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let array = &mut self.array;
        with_bits!(array.dtype(), T => T::bytes_mut(array.bits_mut::<T>()))
    }

    /// Returns the tensor.
    pub fn into_tensor(self) -> Tensor {
        let array = match self.dtype {
            DType::Bool => {
                let shape = self.array.info.shape.clone();
                let bytes = Array::into_bits::<u8>(Arc::new(self.array));
                Array::new(shape, bytes.into_iter().map(|byte| byte != 0).collect())
            }
            _ => self.array,
        };
        Tensor::from_array(array)
    }
}
