//! Converts tensors to and from bytes, least significant byte first.

use std::borrow::Cow;

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
                type $number = bf16;
                $body
            }
            DType::F16 => {
                type $number = f16;
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
        let Some(dtype) = stored_dtype(tensor.dtype()) else {
            return Err(CheckpointError::DType {
                name: name.to_owned(),
                found: tensor.dtype(),
            });
        };
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

/// Builds a tensor from the bytes of its elements. There must be as many bytes as a tensor of `dtype` and `shape` has.
pub(super) fn tensor_of(dtype: DType, shape: &[usize], bytes: &[u8]) -> Tensor {
    with_number!(
        dtype,
        Number => {
            let chunks = bytes.as_chunks::<{ size_of::<Number>() }>().0;
            let numbers: Vec<Number> = chunks.iter().map(|&chunk| Number::from_le_bytes(chunk)).collect();
            Tensor::new(shape, numbers)
        },
        else Tensor::new(shape, bytes.iter().map(|&byte| byte != 0).collect::<Vec<bool>>())
    )
}
