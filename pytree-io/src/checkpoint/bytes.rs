//! Converts tensors to and from bytes, least significant byte first.

use std::borrow::Cow;
use std::cmp::Ordering;

use pytree_core::ElementType;
use pytree_core::bug::bug;
use pytree_transform::{DType, Tensor, TensorElement, bf16, f16, raw};
use safetensors::tensor::{Dtype, View};

use crate::checkpoint::CheckpointError;
use crate::elements::little_endian;

/// A tensor in the form that the safetensors crate expects.
pub(super) struct Stored<'a> {
    tensor: &'a Tensor,
    dtype: Dtype,
}

/// Evaluates `$body` with `$number` as the element type of a numeric [`DType`]. Evaluates `$otherwise` for other
/// dtypes.
macro_rules! with_number {
    ($dtype:expr, $number:ident => $body:expr, else $otherwise:expr) => {
        match $dtype {
            DType::I8 => {
                type $number = i8;
                $body
            }
            DType::I16 => {
                type $number = i16;
                $body
            }
            DType::U8 => {
                type $number = u8;
                $body
            }
            DType::U16 => {
                type $number = u16;
                $body
            }
            DType::BF16 => {
                type $number = pytree_transform::bf16;
                $body
            }
            DType::F16 => {
                type $number = pytree_transform::f16;
                $body
            }
            DType::I32 => {
                type $number = i32;
                $body
            }
            DType::I64 => {
                type $number = i64;
                $body
            }
            DType::U32 => {
                type $number = u32;
                $body
            }
            DType::F32 => {
                type $number = f32;
                $body
            }
            DType::F64 => {
                type $number = f64;
                $body
            }
            _ => $otherwise,
        }
    };
}

impl<'a> Stored<'a> {
    pub(super) fn new(name: &str, tensor: &'a Tensor) -> Result<Self, CheckpointError> {
        let dtype = savable(name, name, tensor.dtype())?;
        let readable = raw::bytes(tensor);
        match readable {
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

/// Returns whether a dtype of a file is a float that [`Number::decode`] reads.
pub(super) fn is_float(stored: Dtype) -> bool {
    element_of(stored).is_some_and(ElementType::is_float)
}

/// An element of a tensor that is read from a file.
pub(super) trait Number: TensorElement + Copy {
    /// The element of a tensor whose elements were not read yet.
    const EMPTY: Self;

    /// Appends the elements in `bytes`, whose dtype in the file is `stored`. The dtype is that of the tensor, or both
    /// are floats. Then each number is rounded once.
    fn decode(stored: Dtype, bytes: &[u8], into: &mut Vec<Self>);
}

/// Appends the elements in `bytes`, each of which has `N` bytes.
fn extend<T, const N: usize>(into: &mut Vec<T>, bytes: &[u8], number: impl Fn([u8; N]) -> T) {
    into.extend(bytes.as_chunks::<N>().0.iter().map(|&chunk| number(chunk)));
}

macro_rules! integers {
    ($($integer:ty)*) => {$(
        impl Number for $integer {
            const EMPTY: Self = 0;

            fn decode(_: Dtype, bytes: &[u8], into: &mut Vec<Self>) {
                extend(into, bytes, Self::from_le_bytes);
            }
        }
    )*};
}
integers!(i8 i16 i32 i64 u8 u16 u32);

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

macro_rules! floats {
    ($($float:ty, $own:ident, $empty:expr, $from:expr;)*) => {$(
        impl Number for $float {
            const EMPTY: Self = $empty;

            #[allow(clippy::cast_possible_truncation, reason = "a conversion that the user allowed rounds")]
            fn decode(stored: Dtype, bytes: &[u8], into: &mut Vec<Self>) {
                // The same bits, also those of a NaN.
                if stored == Dtype::$own {
                    return extend(into, bytes, Self::from_le_bytes);
                }
                let from: fn(f64) -> Self = $from;
                match stored {
                    Dtype::BF16 => extend(into, bytes, |b| from(bf16::from_le_bytes(b).to_f64())),
                    Dtype::F16 => extend(into, bytes, |b| from(f16::from_le_bytes(b).to_f64())),
                    Dtype::F32 => extend(into, bytes, |b| from(f64::from(f32::from_le_bytes(b)))),
                    _ => extend(into, bytes, |b| from(f64::from_le_bytes(b))),
                }
            }
        }
    )*};
}
floats! {
    bf16, BF16, bf16::ZERO, |number| bf16::from_f32(rounded_to_odd(number));
    f16, F16, f16::ZERO, |number| f16::from_f32(rounded_to_odd(number));
    f32, F32, 0.0, |number| number as f32;
    f64, F64, 0.0, |number| number;
}

impl Number for bool {
    const EMPTY: Self = false;

    fn decode(_: Dtype, bytes: &[u8], into: &mut Vec<Self>) {
        into.extend(bytes.iter().map(|&byte| byte != 0));
    }
}

pub(super) use with_number;

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
            let read = with_number!(dtype, T => T::DTYPE, else DType::Bool);
            assert_eq!(read, dtype, "no case in `with_number`");
        }
        assert_eq!(
            (dtype_of(Dtype::U64), dtype_of(Dtype::F8_E4M3)),
            (None, None)
        );
        assert!(!is_float(Dtype::F8_E4M3));
    }
}
