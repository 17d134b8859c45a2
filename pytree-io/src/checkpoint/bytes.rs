//! Converts tensors to and from bytes, least significant byte first.

use std::borrow::Cow;
use std::cmp::Ordering;

use pytree_core::bug::bug;
use pytree_transform::{DType, Tensor, TensorElement, bf16, f16};
use safetensors::tensor::{Dtype, View};

use crate::checkpoint::CheckpointError;

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
        let readable = with_number!(
            tensor.dtype(),
            Number => tensor.read::<Number>().map(|_| ()),
            else tensor.read::<bool>().map(|_| ())
        );
        match readable {
            Ok(()) => Ok(Self { tensor, dtype }),
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

/// Returns the elements of a tensor that was already checked to be readable.
fn elements<T: TensorElement>(tensor: &Tensor) -> &[T] {
    match tensor.read::<T>() {
        Ok(elements) => elements,
        Err(error) => bug(format_args!(
            "a tensor whose elements can be read, found the error: {error}"
        )),
    }
}

impl View for Stored<'_> {
    fn dtype(&self) -> Dtype {
        self.dtype
    }
    fn shape(&self) -> &[usize] {
        self.tensor.shape()
    }
    fn data(&self) -> Cow<'_, [u8]> {
        let mut bytes = Vec::with_capacity(self.data_len());
        with_number!(
            self.tensor.dtype(),
            Number => {
                for number in elements::<Number>(self.tensor) {
                    bytes.extend_from_slice(&number.to_le_bytes());
                }
            },
            else bytes.extend(elements::<bool>(self.tensor).iter().map(|&bit| u8::from(bit)))
        );
        Cow::Owned(bytes)
    }
    fn data_len(&self) -> usize {
        self.tensor.len() * self.tensor.dtype().bytes()
    }
}

/// Calls `each` with the bytes of a tensor, in pieces of at most [`WRITTEN`] bytes. So a tensor is never in memory twice.
pub(super) fn each_piece(
    name: &str,
    tensor: &Tensor,
    mut each: impl FnMut(&[u8]) -> Result<(), CheckpointError>,
) -> Result<(), CheckpointError> {
    let failed = |source| CheckpointError::Value {
        name: name.to_owned(),
        source: Box::new(source),
    };
    let mut bytes = Vec::with_capacity(WRITTEN);
    with_number!(
        tensor.dtype(),
        Number => {
            let elements = tensor.read::<Number>().map_err(failed)?;
            for piece in elements.chunks(WRITTEN / size_of::<Number>()) {
                bytes.clear();
                for number in piece {
                    bytes.extend_from_slice(&number.to_le_bytes());
                }
                each(&bytes)?;
            }
        },
        else {
            for piece in tensor.read::<bool>().map_err(failed)?.chunks(WRITTEN) {
                bytes.clear();
                bytes.extend(piece.iter().map(|&bit| u8::from(bit)));
                each(&bytes)?;
            }
        }
    );
    Ok(())
}

/// The number of bytes that [`each_piece`] converts at a time.
const WRITTEN: usize = 1 << 16;

pub(super) fn stored_dtype(dtype: DType) -> Option<Dtype> {
    Some(match dtype {
        DType::Bool => Dtype::BOOL,
        DType::I8 => Dtype::I8,
        DType::I16 => Dtype::I16,
        DType::U8 => Dtype::U8,
        DType::U16 => Dtype::U16,
        DType::BF16 => Dtype::BF16,
        DType::F16 => Dtype::F16,
        DType::I32 => Dtype::I32,
        DType::I64 => Dtype::I64,
        DType::U32 => Dtype::U32,
        DType::F32 => Dtype::F32,
        DType::F64 => Dtype::F64,
        _ => return None,
    })
}

/// Returns the name of a safetensors dtype in the notation of this library, such as `f32`. Also accepts the dtypes that
/// [`DType`] lacks.
pub(super) fn dtype_name(dtype: Dtype) -> String {
    format!("{dtype:?}").to_lowercase()
}

/// The dtypes of tensors that a file can have.
pub(super) const DTYPES: [DType; 12] = [
    DType::Bool,
    DType::I8,
    DType::I16,
    DType::U8,
    DType::U16,
    DType::BF16,
    DType::F16,
    DType::I32,
    DType::I64,
    DType::U32,
    DType::F32,
    DType::F64,
];

/// Returns the dtype of tensors for a dtype of a file, or `None` if this library has no such dtype.
pub(super) fn dtype_of(stored: Dtype) -> Option<DType> {
    DTYPES
        .into_iter()
        .find(|&dtype| stored_dtype(dtype) == Some(stored))
}

/// Returns whether a dtype of a file is a float that [`Number::decode`] reads.
pub(super) fn is_float(stored: Dtype) -> bool {
    matches!(stored, Dtype::BF16 | Dtype::F16 | Dtype::F32 | Dtype::F64)
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
