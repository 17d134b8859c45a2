//! Converts tensors to and from bytes, least significant byte first.

use std::borrow::Cow;
use std::cmp::Ordering;

use pytree_core::ElementType;
use pytree_core::bug::bug;
use pytree_transform::{DType, Tensor, bf16, f16};
use safetensors::tensor::{Dtype, View};

use crate::checkpoint::CheckpointError;
use crate::elements::{little_endian, swap_bytes};

/// A tensor in the form that the safetensors crate expects.
pub(super) struct Stored<'a> {
    tensor: &'a Tensor,
    dtype: Dtype,
}

impl<'a> Stored<'a> {
    pub(super) fn new(name: &str, tensor: &'a Tensor) -> Result<Self, CheckpointError> {
        let dtype = savable(name, name, tensor.dtype())?;
        match tensor.try_bytes() {
            Ok(_) => Ok(Self { tensor, dtype }),
            Err(source) => Err(CheckpointError::Value {
                name: name.to_owned(),
                source: Box::new(source),
            }),
        }
    }
}

/// Returns the dtype of a file for a leaf, which the file has under the name `stored`.
pub(super) fn savable(name: &str, stored: &str, dtype: DType) -> Result<Dtype, CheckpointError> {
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
        self.tensor.shape()
    }
    fn data(&self) -> Cow<'_, [u8]> {
        match little_endian(self.tensor) {
            Ok(bytes) => bytes,
            Err(error) => bug(format_args!(
                "a tensor whose elements can be read, found the error: {error}"
            )),
        }
    }
    fn data_len(&self) -> usize {
        self.tensor.len() * self.tensor.dtype().bytes()
    }
}

/// Calls `each` with the bytes of a tensor, in pieces of at most [`WRITTEN`] bytes.
pub(super) fn each_piece(
    name: &str,
    tensor: &Tensor,
    each: impl FnMut(&[u8]) -> Result<(), CheckpointError>,
) -> Result<(), CheckpointError> {
    let bytes = little_endian(tensor).map_err(|source| CheckpointError::Value {
        name: name.to_owned(),
        source: Box::new(source),
    })?;
    bytes.chunks(WRITTEN).try_for_each(each)
}

/// The number of bytes of a piece.
const WRITTEN: usize = 1 << 16;

/// Returns the dtype of a file for a dtype of tensors.
pub(super) fn stored_dtype(dtype: DType) -> Option<Dtype> {
    serde_json::from_value(dtype.element().safetensors().into()).ok()
}

/// Returns the name of a safetensors dtype in the notation of this library, such as `f32`. Also accepts the dtypes that
/// [`DType`] lacks.
pub(super) fn dtype_name(dtype: Dtype) -> String {
    format!("{dtype:?}").to_lowercase()
}

/// Returns the dtype of a file in the table of dtypes, or `None` if the table has no such dtype.
fn element_of(stored: Dtype) -> Option<ElementType> {
    ElementType::from_safetensors(&stored.to_string())
}

/// Returns the dtype of tensors for a dtype of a file, or `None` if this library has no such dtype.
pub(super) fn dtype_of(stored: Dtype) -> Option<DType> {
    element_of(stored).and_then(DType::from_element)
}

/// Returns whether a dtype of a file is a float that [`decode`] reads.
pub(super) fn is_float(stored: Dtype) -> bool {
    element_of(stored).is_some_and(ElementType::is_float)
}

/// Writes the elements in `bytes`, whose dtype in the file is `stored`, as elements of the dtype `dtype` in the byte order of
/// the host. Both dtypes are the same, or both are floats. Then each number is rounded once.
pub(super) fn decode(stored: Dtype, bytes: &[u8], dtype: DType, into: &mut [u8]) {
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
            Dtype::BF16 => read(bytes, numbers, |b| bf16::from_le_bytes(b).to_f64()),
            Dtype::F16 => read(bytes, numbers, |b| f16::from_le_bytes(b).to_f64()),
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
fn write(numbers: &[f64], dtype: DType, into: &mut [u8]) {
    fn each<const N: usize>(numbers: &[f64], into: &mut [u8], bytes: impl Fn(f64) -> [u8; N]) {
        for (to, &from) in into.as_chunks_mut::<N>().0.iter_mut().zip(numbers) {
            *to = bytes(from);
        }
    }
    let odd = rounded_to_odd;
    match dtype {
        DType::BF16 => each(numbers, into, |x| bf16::from_f32(odd(x)).to_ne_bytes()),
        DType::F16 => each(numbers, into, |x| f16::from_f32(odd(x)).to_ne_bytes()),
        DType::F32 => each(numbers, into, |x| (x as f32).to_ne_bytes()),
        DType::F64 => each(numbers, into, f64::to_ne_bytes),
        other => bug(format_args!("a float dtype, found {other}")),
    }
}

/// Returns one of the two f32 next to a number, the one whose last bit is 1, unless the number is an f32. If the result
/// is rounded to a half-precision float, it is the float that is nearest to the number (Boldo and Melquiond 2008, "Emulation
/// of FMA and correctly rounded sums", theorem 3).
#[allow(
    clippy::cast_possible_truncation,
    reason = "the rounding is corrected below"
)]
fn rounded_to_odd(number: f64) -> f32 {
    let nearest = number as f32;
    let exact = f64::from(nearest);
    if !exact.is_finite() || nearest.to_bits() % 2 == 1 {
        return nearest;
    }
    match exact.partial_cmp(&number) {
        Some(Ordering::Less) => nearest.next_up(),
        Some(Ordering::Greater) => nearest.next_down(),
        _ => nearest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dtypes_have_sizes_of_safetensors() {
        for &dtype in DType::ALL {
            let stored = stored_dtype(dtype).unwrap();
            assert_eq!(stored.bitsize(), 8 * dtype.bytes(), "{dtype}");
            assert_eq!(dtype_of(stored), Some(dtype));
            assert_eq!(dtype_name(stored), dtype.to_string());
            assert_eq!(is_float(stored), dtype.is_float());
        }
        assert_eq!(
            (dtype_of(Dtype::U64), dtype_of(Dtype::F8_E4M3)),
            (None, None)
        );
        assert!(!is_float(Dtype::F8_E4M3));
    }
}
