//! The elements of a `.npy` file.

use std::io::Read;

use pytree_transform::extend::TensorBuffer;
use pytree_transform::{AbstractArray, Tensor};

use crate::data::npy::NpyError;
use crate::data::npy::header::{ByteOrder, Header};
use crate::elements::{little_endian, swap_bytes};

/// Reads the elements. The reader has as many bytes as the header says.
pub(super) fn read_elements(reader: &mut impl Read, header: &Header) -> Result<Tensor, NpyError> {
    let mut shape = header.shape.clone();
    if header.fortran {
        // The elements of an array in column-major order are those of its transpose in row-major order.
        shape.reverse();
    }
    let info = AbstractArray::new(header.dtype, shape);
    let mut buffer = TensorBuffer::new(&info)?;
    let bytes = buffer.bytes_mut();
    let read = reader.read_exact(bytes);
    read.map_err(|error| {
        NpyError::format(format!("{} elements", header.info()), error.to_string())
    })?;
    if (header.order == ByteOrder::Big) != cfg!(target_endian = "big") {
        swap_bytes(bytes, info.dtype);
    }
    let tensor = buffer.into_tensor();
    Ok(if header.fortran { tensor.t() } else { tensor })
}

/// Appends the elements of a tensor in row-major order, least significant byte first.
pub(super) fn written_elements(tensor: &Tensor, bytes: &mut Vec<u8>) -> Result<(), NpyError> {
    bytes.extend_from_slice(&little_endian(tensor)?);
    Ok(())
}
