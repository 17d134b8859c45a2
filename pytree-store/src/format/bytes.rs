//! Arrays in files: their dtypes, and conversions of their elements, least significant byte first.

use std::borrow::Cow;

use pytree_base::bug::bug;
use pytree_core::{ArrayLeaf, ElementType};
use safetensors::tensor::{Dtype, View};

use crate::elements::bytes::{little_endian, swap_bytes};
use crate::report::error::CheckpointError;

/// An array as a file has it.
pub(crate) struct Stored<'l> {
    dtype: Dtype,
    shape: Vec<usize>,
    /// The elements, least significant byte first.
    bytes: Cow<'l, [u8]>,
}

impl<'l> Stored<'l> {
    /// Returns a leaf as a file has it under its own name.
    pub(crate) fn new(name: &str, leaf: &'l dyn ArrayLeaf) -> Result<Self, CheckpointError> {
        let info = leaf.info();
        let dtype = savable(name, name, info.element)?;
        let bytes = elements_of(name, leaf)?;
        Ok(Self::of_bytes(
            info.element,
            dtype,
            info.shape.to_vec(),
            bytes,
        ))
    }

    /// Returns an array of elements in the byte order of the host.
    pub(crate) fn of_bytes(
        element: ElementType,
        dtype: Dtype,
        shape: Vec<usize>,
        bytes: Cow<'l, [u8]>,
    ) -> Self {
        let bytes = little_endian(bytes, element);
        Self {
            dtype,
            shape,
            bytes,
        }
    }
}

/// Returns the elements of a leaf in the byte order of the host.
pub(crate) fn elements_of<'l>(
    name: &str,
    leaf: &'l dyn ArrayLeaf,
) -> Result<Cow<'l, [u8]>, CheckpointError> {
    leaf.bytes().map_err(|source| CheckpointError::Value {
        name: name.to_owned(),
        source,
    })
}

/// Returns the dtype of a file for a leaf, which the file has under the name `stored`.
pub(crate) fn savable(
    name: &str,
    stored: &str,
    dtype: ElementType,
) -> Result<Dtype, CheckpointError> {
    if stored == METADATA {
        return Err(CheckpointError::ReservedName {
            name: name.to_owned(),
        });
    }
    stored_dtype(dtype).ok_or_else(|| CheckpointError::DType {
        name: name.to_owned(),
        found: dtype,
    })
}

/// The name of the metadata in the header of a safetensors file. No tensor can have this name.
const METADATA: &str = "__metadata__";

impl View for Stored<'_> {
    fn dtype(&self) -> Dtype {
        self.dtype
    }
    fn shape(&self) -> &[usize] {
        &self.shape
    }
    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.bytes)
    }
    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}

/// Returns the dtype of a file for a dtype.
pub(crate) fn stored_dtype(dtype: ElementType) -> Option<Dtype> {
    serde_json::from_value(dtype.safetensors().into()).ok()
}

/// Returns the name of a safetensors dtype in the notation of this library, such as `f32`. Also accepts the dtypes that
/// [`ElementType`] lacks.
pub(crate) fn dtype_name(dtype: Dtype) -> String {
    format!("{dtype:?}").to_lowercase()
}

/// Returns the dtype of a file in the table of dtypes, or `None` if the table has no such dtype.
pub(crate) fn dtype_of(stored: Dtype) -> Option<ElementType> {
    ElementType::from_safetensors(&stored.to_string())
}

/// Returns whether a dtype of a file is a float that [`decode`] reads.
pub(crate) fn is_float(stored: Dtype) -> bool {
    dtype_of(stored).is_some_and(ElementType::is_float)
}

/// Writes the elements in `bytes`, whose dtype in the file is `stored`, as elements of the dtype `dtype` in the byte order of
/// the host. Both dtypes are the same, or both are floats. Then each number is rounded once.
pub(crate) fn decode(stored: Dtype, bytes: &[u8], dtype: ElementType, into: &mut [u8]) {
    // The same bits, also those of a NaN.
    if stored_dtype(dtype) == Some(stored) {
        into.copy_from_slice(bytes);
        if cfg!(target_endian = "big") {
            swap_bytes(into, dtype);
        }
        return;
    }
    let mut numbers = [0.0; 256];
    let pieces = bytes.chunks(numbers.len() * stored.bitsize() / 8);
    for (bytes, into) in pieces.zip(into.chunks_mut(numbers.len() * dtype.bytes())) {
        let numbers = &mut numbers[..into.len() / dtype.bytes()];
        match stored {
            Dtype::BF16 | Dtype::F16 => {
                let of = if stored == Dtype::F16 {
                    ElementType::F16
                } else {
                    ElementType::BF16
                };
                read(bytes, numbers, |b| {
                    of.float_from_bits(u16::from_le_bytes(b).into())
                });
            }
            Dtype::F32 => read(bytes, numbers, |b| f32::from_le_bytes(b).into()),
            _ => read(bytes, numbers, f64::from_le_bytes),
        }
        write(numbers, dtype, into);
    }
}

/// Reads numbers, each of which has `N` bytes.
fn read<const N: usize>(bytes: &[u8], numbers: &mut [f64], number: impl Fn([u8; N]) -> f64) {
    for (to, &from) in numbers.iter_mut().zip(bytes.as_chunks::<N>().0) {
        *to = number(from);
    }
}

/// Writes numbers as elements of a float dtype in the byte order of the host.
#[allow(
    clippy::cast_possible_truncation,
    reason = "a conversion that the user allowed rounds"
)]
fn write(numbers: &[f64], dtype: ElementType, into: &mut [u8]) {
    fn each<const N: usize>(numbers: &[f64], into: &mut [u8], bytes: impl Fn(f64) -> [u8; N]) {
        for (to, &from) in into.as_chunks_mut::<N>().0.iter_mut().zip(numbers) {
            *to = bytes(from);
        }
    }
    match dtype {
        ElementType::BF16 | ElementType::F16 => {
            each(numbers, into, |x| {
                (dtype.bits_of_float(x) as u16).to_ne_bytes()
            });
        }
        ElementType::F32 => each(numbers, into, |x| (x as f32).to_ne_bytes()),
        ElementType::F64 => each(numbers, into, f64::to_ne_bytes),
        other => bug(format_args!("a float dtype, found {other}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dtypes_have_sizes_of_safetensors() {
        for &dtype in ElementType::ALL {
            let stored = stored_dtype(dtype).unwrap();
            assert_eq!(stored.bitsize(), 8 * dtype.bytes(), "{dtype}");
            assert_eq!(dtype_of(stored), Some(dtype));
            assert_eq!(dtype_name(stored), dtype.to_string());
            assert_eq!(is_float(stored), dtype.is_float());
        }
        assert_eq!(dtype_of(Dtype::F8_E4M3), None);
        assert!(!is_float(Dtype::F8_E4M3));
    }
}
