//! The elements of a `.npy` file.

use std::io::Read;

use pytree_transform::{AbstractArray, Tensor, raw};

use crate::data::npy::NpyError;
use crate::data::npy::header::{ByteOrder, Header};
use crate::elements::{little_endian, swap_bytes};

/// Reads the elements. The reader has as many bytes as the header says.
pub(super) fn read_elements(reader: &mut impl Read, header: &Header) -> Result<Tensor, NpyError> {
    let cannot = |found: String| NpyError::format(format!("{} elements", header.info()), found);
    let mut shape = header.shape.clone();
    if header.fortran {
        // The elements of an array in column-major order are those of its transpose in row-major order.
        shape.reverse();
    }
    let info = AbstractArray::new(header.dtype, shape);
    raw::check_memory("Tensor::new", &info)?;
    Vec::<u8>::new()
        .try_reserve_exact(info.len().saturating_mul(info.dtype.bytes()))
        .map_err(|error| cannot(error.to_string()))?;
    let is_swapped = (header.order == ByteOrder::Big) != cfg!(target_endian = "big");
    let tensor = raw::from_bytes(&info, |bytes| {
        let read = reader.read_exact(bytes);
        read.map_err(|error| cannot(error.to_string()))?;
        if is_swapped {
            swap_bytes(bytes, info.dtype);
        }
        Ok::<_, NpyError>(())
    })?;
    Ok(if header.fortran { tensor.t() } else { tensor })
}

/// Appends the elements of a tensor in row-major order, least significant byte first.
pub(super) fn written_elements(tensor: &Tensor, bytes: &mut Vec<u8>) -> Result<(), NpyError> {
    bytes.extend_from_slice(&little_endian(tensor)?);
    Ok(())
}
