//! Reads and writes NumPy's files of arrays, `.npy`.
//!
//! The format is that of `numpy.lib.format`, versions 1.0 to 3.0: a magic number, the length of the header, a header in
//! Python's syntax with dtype, order and shape, and the elements. The length of the file is compared with the header before
//! memory for the elements is allocated.
//!
//! NumPy has no bfloat16. The package `ml_dtypes`, which JAX uses, writes it as `<V2`: two bytes without a meaning. So
//! `V2` is read as bf16, and written for bf16. In Python, `np.load(path).view(ml_dtypes.bfloat16)` restores it.

mod elements;
mod error;
mod header;

use std::io::{BufReader, Read};
use std::path::Path;

use pytree_transform::Tensor;

use crate::data::npy::elements::{read_elements, written_elements};
use crate::data::npy::header::Header;
use crate::files;

pub use error::NpyError;

/// Reads the array of a `.npy` file.
///
/// Reads bool, integers of 8 to 64 bits except u64, f16, bf16, f32 and f64, in both byte orders, and both in row-major (C) and in
/// column-major (Fortran) order. The tensor is on the host, in row-major order.
///
/// # Examples
/// ```
/// use pytree_io::data::npy;
/// use pytree_transform::Tensor;
/// let path = std::env::temp_dir().join("pytree-npy-example.npy");
/// let array = Tensor::from([[1.0_f32, 2.0], [3.0, 4.0]]);
/// npy::save(&path, &array)?;
/// assert_eq!(npy::load(&path)?, array);
/// # std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns [`NpyError::Io`] if the file cannot be read, [`NpyError::Format`] if it is not an array or is damaged, and
/// [`NpyError::DType`] if the library does not have its dtype. [`NpyError::Empty`], [`NpyError::Directory`] and
/// [`NpyError::Archive`] are common mistakes.
#[doc(alias = "np.load")]
pub fn load(path: impl AsRef<Path>) -> Result<Tensor, NpyError> {
    let path = path.as_ref();
    let failed = |source| NpyError::Io {
        operation: "read",
        path: path.to_owned(),
        source,
    };
    // Some systems open a directory like a file, and others report a missing permission.
    if path.is_dir() {
        return Err(NpyError::Directory {
            path: path.to_owned(),
        });
    }
    let file = files::open(path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    read(BufReader::new(file), length).map_err(|error| error.in_file(path))
}

/// Reads an array from the bytes of a `.npy` file, for example of a member of an archive.
///
/// # Errors
/// Returns [`NpyError::Format`] if the bytes are not an array, and [`NpyError::DType`] if the library does not have its dtype.
pub fn decode(bytes: &[u8]) -> Result<Tensor, NpyError> {
    read(bytes, bytes.len() as u64)
}

/// Writes a tensor to a `.npy` file, atomically. The file has the same bytes as one by `numpy.save`. See [`load`] for an example.
///
/// # Errors
/// Returns [`NpyError::Io`] if the file cannot be written, and [`NpyError::Value`] if the tensor is traced. An existing file is
/// then unchanged.
#[doc(alias = "np.save")]
pub fn save(path: impl AsRef<Path>, tensor: &Tensor) -> Result<(), NpyError> {
    let path = path.as_ref();
    let bytes = encode(tensor)?;
    files::write(path, &bytes).map_err(|source| NpyError::Io {
        operation: "write",
        path: path.to_owned(),
        source,
    })
}

/// Returns the bytes of a `.npy` file with a tensor.
///
/// # Examples
/// ```
/// use pytree_io::data::npy;
/// use pytree_transform::Tensor;
/// let bytes = npy::encode(&Tensor::from([1_u8, 2, 3]))?;
/// assert!(bytes.starts_with(b"\x93NUMPY\x01\x00"));
/// assert_eq!(bytes[128..], [1, 2, 3]);
/// # Ok::<(), npy::NpyError>(())
/// ```
///
/// # Errors
/// Returns [`NpyError::Value`] if the tensor is traced.
pub fn encode(tensor: &Tensor) -> Result<Vec<u8>, NpyError> {
    let mut bytes = Header::written(tensor.info());
    written_elements(tensor, &mut bytes)?;
    Ok(bytes)
}

/// Reads an array from a reader of `length` bytes.
fn read(mut reader: impl Read, length: u64) -> Result<Tensor, NpyError> {
    if length == 0 {
        return Err(NpyError::Empty { path: None });
    }
    let (header, header_length) = Header::read(&mut reader)?;
    let found = length.saturating_sub(header_length);
    let expected = header
        .shape
        .iter()
        .try_fold(header.dtype.bytes() as u64, |bytes, &axis| {
            bytes.checked_mul(axis as u64)
        });
    if expected != Some(found) {
        let expected = expected.map_or_else(
            || format!("{} elements", header.info()),
            |bytes| format!("{bytes} bytes of elements for {}", header.info()),
        );
        return Err(NpyError::format(expected, format!("{found} bytes")));
    }
    read_elements(&mut reader, &header)
}

#[cfg(test)]
mod tests;
