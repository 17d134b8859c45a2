//! Reads and writes NumPy's files of arrays, `.npy`.
//!
//! The format is that of `numpy.lib.format`, versions 1.0 to 3.0: a magic number, the length of the header, a header in
//! Python's syntax with dtype, order and shape, and the elements. The length of the file is compared with the header before
//! memory for the elements is allocated.
//!
//! NumPy has no bfloat16. The package `ml_dtypes`, which JAX uses, writes it as `<V2`: two bytes without a meaning. So
//! `V2` is read as bf16, and written for bf16. In Python, `np.load(path).view(ml_dtypes.bfloat16)` restores it.

use std::io::Read;
use std::path::Path;

use pytree_store::npy::ArrayReader;
use pytree_transform::extend::TensorBuffer;
use pytree_transform::{AbstractArray, DType, Tensor};

pub use pytree_store::npy::{NpyError, encode, save};

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
    read(ArrayReader::open(path)?).map_err(|error| error.in_file(path))
}

/// Reads an array from the bytes of a `.npy` file, for example of a member of an archive.
///
/// # Errors
/// Returns [`NpyError::Format`] if the bytes are not an array, and [`NpyError::DType`] if the library does not have its dtype.
pub fn decode(bytes: &[u8]) -> Result<Tensor, NpyError> {
    read(ArrayReader::new(bytes, bytes.len() as u64)?)
}

/// Reads the elements of an array.
pub(super) fn read(array: ArrayReader<impl Read>) -> Result<Tensor, NpyError> {
    let info = array.info();
    let dtype = DType::from_element(info.element).ok_or_else(|| array.unknown_dtype())?;
    let buffer = TensorBuffer::new(&AbstractArray::new(dtype, info.shape));
    let mut buffer = buffer.map_err(|source| NpyError::Value {
        source: source.into(),
    })?;
    array.read(buffer.bytes_mut())?;
    Ok(buffer.into_tensor())
}

#[cfg(test)]
mod tests;
