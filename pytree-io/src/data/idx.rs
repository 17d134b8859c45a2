//! Files in the format IDX, in which MNIST and its relatives are published: read.
//!
//! The format is that of the page "The MNIST database" (C. Cortes and others): two bytes of 0, a byte for the dtype, a byte for
//! the number of axes, the lengths of the axes as u32, and the elements in row-major order. All
//! numbers are big-endian.

use std::io;
use std::path::{Path, PathBuf};

use pytree_transform::Tensor;
use thiserror::Error;

/// An IDX file cannot be read.
#[derive(Error)]
#[non_exhaustive]
pub enum IdxError {
    /// The operating system reported an error.
    #[error("cannot read the IDX file `{}`: {source}", .path.display())]
    Io {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file is not an IDX file, or is damaged.
    #[error("cannot read the IDX file{}: expected {expected}, found {found}; {fix}", .path.as_ref().map_or_else(String::new, |path| format!(" `{}`", path.display())))]
    Format {
        /// The path of the file, or `None` if the bytes were not read from a file.
        path: Option<PathBuf>,
        /// What the format requires.
        expected: String,
        /// The actual content.
        found: String,
        /// How to fix it.
        fix: &'static str,
    },
}

pytree_base::debug_as_display!(IdxError);

fn wrong(expected: impl Into<String>, found: impl Into<String>) -> IdxError {
    IdxError::Format {
        path: None,
        expected: expected.into(),
        found: found.into(),
        fix: "download the file again",
    }
}

/// Reads the array of an IDX file, such as `train-images-idx3-ubyte`: `u8[60000, 28, 28]`.
///
/// The dtypes are u8, i8, i16, i32, f32 and f64. Unpack a file that ends in `.gz` first, with `gunzip`.
///
/// # Errors
/// Returns [`IdxError::Io`] if the file cannot be read, and [`IdxError::Format`] if it is not an IDX file or is damaged.
pub fn load(path: impl AsRef<Path>) -> Result<Tensor, IdxError> {
    let file = path.as_ref();
    let bytes = pytree_store::files::read(file).map_err(|source| IdxError::Io {
        path: file.to_owned(),
        source,
    })?;
    decode(&bytes).map_err(|mut error| {
        if let IdxError::Format { path, .. } = &mut error {
            *path = Some(file.to_owned());
        }
        error
    })
}

/// Reads an array from the bytes of an IDX file.
///
/// # Examples
/// ```
/// use pytree_io::data::idx;
/// use pytree_transform::Tensor;
/// let labels = idx::decode(&[0, 0, 8, 1, 0, 0, 0, 3, 5, 0, 4])?;
/// assert_eq!(labels, Tensor::from([5_u8, 0, 4]));
/// # Ok::<(), idx::IdxError>(())
/// ```
///
/// # Errors
/// Returns [`IdxError::Format`] if the bytes are not an IDX file.
pub fn decode(bytes: &[u8]) -> Result<Tensor, IdxError> {
    if bytes.starts_with(&[0x1f, 0x8b]) {
        return Err(IdxError::Format {
            path: None,
            expected: "an IDX file".to_owned(),
            found: "a file that gzip has packed".to_owned(),
            fix: "unpack it with `gunzip`",
        });
    }
    let Some(([0, 0, code, axes], rest)) = bytes.split_first_chunk() else {
        let start = &bytes[..bytes.len().min(4)];
        return Err(wrong(
            "two bytes of 0, a dtype and a number of axes",
            format!("{start:?}"),
        ));
    };
    let lengths = rest.get(..4 * usize::from(*axes));
    let lengths = lengths
        .ok_or_else(|| wrong(format!("the lengths of {axes} axes"), "the end of the file"))?;
    let elements = &rest[lengths.len()..];
    let lengths = lengths.as_chunks().0.iter();
    let shape: Vec<usize> = lengths
        .map(|&length| u32::from_be_bytes(length) as usize)
        .collect();
    match code {
        0x08 => array(&shape, elements, u8::from_be_bytes),
        0x09 => array(&shape, elements, i8::from_be_bytes),
        0x0b => array(&shape, elements, i16::from_be_bytes),
        0x0c => array(&shape, elements, i32::from_be_bytes),
        0x0d => array(&shape, elements, f32::from_be_bytes),
        0x0e => array(&shape, elements, f64::from_be_bytes),
        _ => Err(wrong(
            "one of the dtypes 8, 9, 11, 12, 13 and 14",
            format!("the dtype {code}"),
        )),
    }
}

/// Returns a tensor, after comparing the number of bytes with the shape.
fn array<T: pytree_transform::TensorElement, const N: usize>(
    shape: &[usize],
    bytes: &[u8],
    element: impl Fn([u8; N]) -> T,
) -> Result<Tensor, IdxError> {
    let expected = shape
        .iter()
        .try_fold(N, |bytes, &axis| bytes.checked_mul(axis));
    if expected != Some(bytes.len()) {
        let expected = format!("{N} bytes for each element of the shape {shape:?}");
        return Err(wrong(expected, format!("{} bytes", bytes.len())));
    }
    let elements = bytes.as_chunks().0.iter().map(|&bytes| element(bytes));
    Tensor::try_new(shape, elements.collect::<Vec<T>>())
        .map_err(|error| wrong("a shape that fits into memory", error.to_string()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn every_dtype_is_read() {
        let file = |code, elements: &[u8]| {
            let mut bytes = vec![0, 0, code, 2, 0, 0, 0, 1, 0, 0, 0, 2];
            bytes.extend(elements);
            decode(&bytes).unwrap()
        };
        assert_eq!(file(8, &[7, 255]), Tensor::from([[7_u8, 255]]));
        assert_eq!(file(9, &[7, 255]), Tensor::from([[7_i8, -1]]));
        assert_eq!(file(11, &[1, 0, 255, 254]), Tensor::from([[256_i16, -2]]));
        assert_eq!(
            file(12, &[0, 0, 1, 2, 255, 255, 255, 255]),
            Tensor::from([[258_i32, -1]])
        );
        assert_eq!(
            file(13, &[0x3f, 0x80, 0, 0, 0xc0, 0, 0, 0]),
            Tensor::from([[1.0_f32, -2.0]])
        );
        let doubles = [0x3f, 0xf0, 0, 0, 0, 0, 0, 0, 0xc0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(file(14, &doubles), Tensor::from([[1.0_f64, -2.0]]));
    }

    #[test]
    fn damaged_files_are_described() {
        let message = |bytes: &[u8]| decode(bytes).unwrap_err().to_string();
        assert_eq!(
            message(&[0x1f, 0x8b, 8, 0]),
            "cannot read the IDX file: expected an IDX file, found a file that gzip has packed; unpack it with `gunzip`"
        );
        assert!(message(b"PK\x03\x04").contains("found [80, 75, 3, 4]"));
        assert!(message(&[0, 0]).contains("found [0, 0]"));
        assert!(
            message(&[0, 0, 8, 3, 0, 0, 0, 1]).contains("the lengths of 3 axes, found the end")
        );
        assert!(message(&[0, 0, 10, 0, 1]).contains("found the dtype 10"));
        assert_eq!(
            message(&[0, 0, 8, 2, 255, 255, 255, 255, 255, 255, 255, 255, 1]),
            "cannot read the IDX file: expected 1 bytes for each element of the shape [4294967295, 4294967295], found 1 bytes; download the file again"
        );
        // An axis of length 0 hides that the other axes do not fit into memory.
        let mut huge = vec![0, 0, 14, 5, 0, 0, 0, 0];
        huge.extend([255; 16]);
        assert!(decode(&huge).is_err());
    }
}
