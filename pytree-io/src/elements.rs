//! The elements of tensors as bytes.

use std::borrow::Cow;

use pytree_transform::{DType, Tensor, TensorError};

/// Returns the elements of a tensor in row-major order, least significant byte first.
pub(crate) fn little_endian(tensor: &Tensor) -> Result<Cow<'_, [u8]>, TensorError> {
    let bytes = tensor.try_bytes()?;
    if cfg!(target_endian = "little") {
        return Ok(Cow::Borrowed(bytes));
    }
    let mut bytes = bytes.to_vec();
    swap_bytes(&mut bytes, tensor.dtype());
    Ok(Cow::Owned(bytes))
}

/// Reverses the bytes of each element.
pub(crate) fn swap_bytes(bytes: &mut [u8], dtype: DType) {
    for element in bytes.chunks_exact_mut(dtype.bytes()) {
        element.reverse();
    }
}
