//! Reads and writes NumPy's files of arrays, `.npy`.
//!
//! The format is that of `numpy.lib.format`, versions 1.0 to 3.0: a magic number, the length of the header, a header in
//! Python's syntax with dtype, order and shape, and the elements. The length of the file is compared with the header before
//! memory for the elements is allocated.
//!
//! NumPy has no bfloat16. The package `ml_dtypes`, which JAX uses, writes it as `<V2`: two bytes without a meaning. So
//! `V2` is read as bf16, and written for bf16. In Python, `np.load(path).view(ml_dtypes.bfloat16)` restores it.

mod error;
mod header;

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use pytree_core::{ArrayInfo, ArrayLeaf};

use crate::elements::bytes::{little_endian, swap_bytes};
use crate::elements::scatter::{Scatter, Target};
use crate::files;
use crate::numpy::npy::header::{ByteOrder, Header};

pub use self::error::NpyError;

/// An array whose header was read, and whose elements follow in a reader.
#[derive(Debug)]
pub struct ArrayReader<R> {
    reader: R,
    header: Header,
}

impl ArrayReader<BufReader<File>> {
    /// Reads the header of a `.npy` file.
    ///
    /// # Errors
    /// Returns [`NpyError::Io`] if the file cannot be read, [`NpyError::Format`] if it is not an array or is damaged, and
    /// [`NpyError::DType`] if the library does not have its dtype. [`NpyError::Empty`], [`NpyError::Directory`] and
    /// [`NpyError::Archive`] are common mistakes.
    pub fn open(path: &Path) -> Result<Self, NpyError> {
        let failed = NpyError::io("read", path);
        // Some systems open a directory like a file, and others report a missing permission.
        if path.is_dir() {
            return Err(NpyError::Directory {
                path: path.to_owned(),
            });
        }
        let file = files::open(path).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        Self::new(BufReader::new(file), length).map_err(|error| error.in_file(path))
    }
}

impl<R: Read> ArrayReader<R> {
    /// Reads the header of an array from a reader of `length` bytes.
    ///
    /// # Errors
    /// Returns the errors of [`open`](ArrayReader::open) but for those of files.
    pub fn new(mut reader: R, length: u64) -> Result<Self, NpyError> {
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
        Ok(Self { reader, header })
    }

    /// Returns the dtype and the shape.
    pub fn info(&self) -> ArrayInfo<&[usize]> {
        self.header.info()
    }

    /// Returns the error for a reader that has no arrays of this dtype.
    pub fn unknown_dtype(&self) -> NpyError {
        NpyError::DType {
            path: None,
            descr: self.header.descr(),
        }
    }

    /// Reads the elements to memory of their size, in row-major order and in the byte order of the host.
    ///
    /// # Errors
    /// Returns [`NpyError::Format`] if the elements cannot be read.
    pub fn read(self, elements: &mut [u8]) -> Result<(), NpyError> {
        let Self { mut reader, header } = self;
        let rank = header.shape.len();
        let mut read = |elements: &mut [u8]| {
            let read = reader.read_exact(elements);
            read.map_err(|error| {
                NpyError::format(format!("{} elements", header.info()), error.to_string())
            })
        };
        if header.fortran && rank > 1 && !elements.is_empty() {
            // The elements of an array in column-major order are those of its transpose in row-major order.
            let mut stored = vec![0; elements.len()];
            read(&mut stored)?;
            let reversed: Vec<usize> = header.shape.iter().copied().rev().collect();
            let mut strides = vec![1; rank];
            for axis in 1..rank {
                strides[axis] = strides[axis - 1] * reversed[axis - 1].cast_signed();
            }
            let target = Target {
                elements: &mut *elements,
                range: 0..reversed[0],
                places: (0, strides),
            };
            let unit = header.dtype.bytes();
            Scatter::new(&reversed, unit, 0, vec![target]).add(&stored, reversed[rank - 1]);
        } else {
            read(elements)?;
        }
        if (header.order == ByteOrder::Big) != cfg!(target_endian = "big") {
            swap_bytes(elements, header.dtype);
        }
        Ok(())
    }
}

/// Writes an array to a `.npy` file, atomically. The file has the same bytes as one by `numpy.save`.
///
/// # Errors
/// Returns [`NpyError::Io`] if the file cannot be written, and [`NpyError::Value`] if the elements are not known, as inside of a
/// compiled function. An existing file is then unchanged.
#[doc(alias = "np.save")]
pub fn save(path: impl AsRef<Path>, array: &dyn ArrayLeaf) -> Result<(), NpyError> {
    let path = path.as_ref();
    let bytes = encode(array)?;
    files::write(path, &bytes).map_err(NpyError::io("write", path))
}

/// Returns the bytes of a `.npy` file with an array.
///
/// # Examples
/// ```
/// use ndarray::array;
/// use pytree_store::npy;
/// let bytes = npy::encode(&array![1_u8, 2, 3])?;
/// assert!(bytes.starts_with(b"\x93NUMPY\x01\x00"));
/// assert_eq!(bytes[128..], [1, 2, 3]);
/// # Ok::<(), npy::NpyError>(())
/// ```
///
/// # Errors
/// Returns [`NpyError::Value`] if the elements are not known, as inside of a compiled function.
pub fn encode(array: &dyn ArrayLeaf) -> Result<Vec<u8>, NpyError> {
    let elements = array.bytes();
    let elements = elements.map_err(|source| NpyError::Value { source })?;
    let mut bytes = Header::written(array.info());
    bytes.extend_from_slice(&little_endian(elements, array.info().element));
    Ok(bytes)
}
