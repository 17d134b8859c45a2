//! Conversions between tensors and the bytes of plugins.

use pytree_core::ElementType;
use pytree_transform::device::DeviceError;
use pytree_transform::extend::TensorBuffer;
use pytree_transform::{AbstractArray, DType, Tensor};

use crate::buffer::Buffer;
use crate::error::PjrtError;

/// Returns the element type of a tensor on the host, and its elements as bytes. The last axis is contiguous.
pub(crate) fn bytes(tensor: &Tensor) -> Result<(ElementType, &[u8]), DeviceError> {
    match tensor.try_bytes() {
        Ok(bytes) => Ok((tensor.dtype().element(), bytes)),
        Err(error) => Err(DeviceError::failed(error.to_string())),
    }
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
    let element = buffer.element_type();
    let Some(dtype) = DType::from_element(element) else {
        let fix = "convert the result to i64";
        return Err(DeviceError::unsupported(
            format!("tensors of {element}"),
            fix,
        ));
    };
    let info = AbstractArray::new(dtype, buffer.dims());
    let mut elements =
        TensorBuffer::new(&info).map_err(|error| DeviceError::failed(error.to_string()))?;
    let read = buffer.read_bytes(elements.bytes_mut());
    read.map_err(device_error)?;
    Ok(elements.into_tensor())
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
        assert_eq!(format!("{other:?}"), other.to_string());
        let error = device_error(other);
        assert_eq!(format!("{error:?}"), error.to_string());
        let message = error.to_string();
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
            (ElementType::BF16, &[0x80, 0x3f, 0x00, 0xc0][..])
        );
        let x = Tensor::from([true, false]);
        assert_eq!(bytes(&x).unwrap(), (ElementType::Bool, &[1, 0][..]));
        assert_eq!(Bytes::of(&x).as_ref(), [1, 0]);
    }
}
