//! Conversions between tensors and the bytes of plugins.

use bytemuck::{cast_slice, cast_slice_mut};
use half::slice::HalfFloatSliceExt;
use half::vec::HalfBitsVecExt;
use half::{bf16, f16};
use pytree_transform::device::DeviceError;
use pytree_transform::{DType, Tensor, TensorElement, TensorError};

use crate::buffer::Buffer;
use crate::element::{Element, ElementType};
use crate::error::PjrtError;

/// Returns the element type of a tensor on the host, and its elements as bytes. The last axis is contiguous.
pub(crate) fn bytes(tensor: &Tensor) -> Result<(ElementType, &[u8]), DeviceError> {
    fn plain<T: TensorElement + Element>(tensor: &Tensor) -> Result<&[u8], TensorError> {
        tensor.read::<T>().map(cast_slice)
    }
    let (element, bytes) = match tensor.dtype() {
        DType::Bool => (ElementType::Bool, plain::<bool>(tensor)),
        DType::I8 => (ElementType::I8, plain::<i8>(tensor)),
        DType::I16 => (ElementType::I16, plain::<i16>(tensor)),
        DType::I32 => (ElementType::I32, plain::<i32>(tensor)),
        DType::I64 => (ElementType::I64, plain::<i64>(tensor)),
        DType::U8 => (ElementType::U8, plain::<u8>(tensor)),
        DType::U16 => (ElementType::U16, plain::<u16>(tensor)),
        DType::U32 => (ElementType::U32, plain::<u32>(tensor)),
        DType::BF16 => {
            let elements = tensor.read::<bf16>();
            (
                ElementType::Bf16,
                elements.map(|it| cast_slice(it.reinterpret_cast())),
            )
        }
        DType::F16 => {
            let elements = tensor.read::<f16>();
            (
                ElementType::F16,
                elements.map(|it| cast_slice(it.reinterpret_cast())),
            )
        }
        DType::F32 => (ElementType::F32, plain::<f32>(tensor)),
        DType::F64 => (ElementType::F64, plain::<f64>(tensor)),
        other => {
            let fix = "convert the tensor to another dtype";
            return Err(DeviceError::unsupported(format!("tensors of {other}"), fix));
        }
    };
    let bytes = bytes.map_err(|error| DeviceError::failed(error.to_string()))?;
    Ok((element, bytes))
}

/// A tensor on the host that lends its bytes.
#[derive(Debug)]
pub(crate) struct Bytes(Tensor);

impl Bytes {
    /// Creates the owner of the bytes of a tensor. [`bytes`] must be able to borrow the elements.
    pub(crate) fn of(tensor: &Tensor) -> Self {
        Self(tensor.clone())
    }
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        // `bytes` does not fail here. If `bytes` failed, the empty slice would be reported as a wrong size.
        bytes(&self.0).map_or(&[], |(_, bytes)| bytes)
    }
}

/// Waits for a buffer, and returns its elements as a tensor on the host.
pub(crate) fn tensor(buffer: &Buffer) -> Result<Tensor, DeviceError> {
    fn plain<T: TensorElement + Element>(buffer: &Buffer) -> Result<Tensor, PjrtError> {
        let elements = buffer.to_vec::<T>()?;
        Ok(Tensor::new(buffer.dims(), elements))
    }
    /// Reads half-precision elements from their bits.
    fn halves<T: TensorElement>(
        buffer: &Buffer,
        of_bits: fn(Vec<u16>) -> Vec<T>,
    ) -> Result<Tensor, PjrtError> {
        let mut bits = vec![0_u16; buffer.array_type().len().unwrap_or(usize::MAX)];
        buffer.read_bytes(cast_slice_mut(&mut bits))?;
        Ok(Tensor::new(buffer.dims(), of_bits(bits)))
    }
    let tensor = match buffer.element_type() {
        ElementType::Bool => plain::<bool>(buffer),
        ElementType::I8 => plain::<i8>(buffer),
        ElementType::I16 => plain::<i16>(buffer),
        ElementType::I32 => plain::<i32>(buffer),
        ElementType::I64 => plain::<i64>(buffer),
        ElementType::U8 => plain::<u8>(buffer),
        ElementType::U16 => plain::<u16>(buffer),
        ElementType::U32 => plain::<u32>(buffer),
        ElementType::U64 => {
            let fix = "convert the result to i64";
            return Err(DeviceError::unsupported("tensors of u64", fix));
        }
        ElementType::Bf16 => halves::<bf16>(buffer, HalfBitsVecExt::reinterpret_into),
        ElementType::F16 => halves::<f16>(buffer, HalfBitsVecExt::reinterpret_into),
        ElementType::F32 => plain::<f32>(buffer),
        ElementType::F64 => plain::<f64>(buffer),
    };
    tensor.map_err(device_error)
}

/// Converts the error of a plugin to the error of a device.
pub(crate) fn device_error(error: PjrtError) -> DeviceError {
    match error {
        PjrtError::OutOfMemory { message, .. } => DeviceError::out_of_memory(message),
        other => DeviceError::failed(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorCode;

    #[test]
    fn exhausted_memory_has_its_own_error() {
        let full = PjrtError::OutOfMemory {
            doing: "run `f`".to_owned(),
            message: "needs 9 GiB".to_owned(),
        };
        assert_eq!(
            device_error(full),
            DeviceError::out_of_memory("needs 9 GiB")
        );
        let other = PjrtError::Execute {
            executable: "f".to_owned(),
            code: ErrorCode::Internal,
            message: "broken".to_owned(),
        };
        let message = device_error(other).to_string();
        assert!(
            message.starts_with("the device reported: ") && message.contains("broken"),
            "{message}"
        );
    }

    #[test]
    fn bytes_are_those_of_elements() {
        let x = Tensor::from([1.0_f32, -2.0]).convert(DType::BF16);
        let (element, bits) = bytes(&x).unwrap();
        assert_eq!(
            (element, bits),
            (ElementType::Bf16, &[0x80, 0x3f, 0x00, 0xc0][..])
        );
        let x = Tensor::from([true, false]);
        assert_eq!(bytes(&x).unwrap(), (ElementType::Bool, &[1, 0][..]));
        assert_eq!(Bytes::of(&x).as_ref(), [1, 0]);
    }
}
