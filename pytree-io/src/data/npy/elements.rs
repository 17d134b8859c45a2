//! The elements of a `.npy` file.

use std::io::Read;

use pytree_core::bug::bug;
use pytree_transform::{DType, Tensor, TensorElement, bf16, f16};

use crate::data::npy::NpyError;
use crate::data::npy::header::{ByteOrder, Header};

/// The number of bytes that one call reads. A multiple of the size of each element.
const CHUNK: usize = 1 << 16;

/// Calls `$body` with the element type of a dtype, or `$boolean` for bool.
macro_rules! with_number {
    ($dtype:expr, $number:ident => $body:expr, bool => $boolean:expr) => {
        with_number! { @cases $dtype, $number => $body, bool => $boolean,
            I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, BF16 bf16, F16 f16, F32 f32, F64 f64 }
    };
    (@cases $dtype:expr, $number:ident => $body:expr, bool => $boolean:expr, $($name:ident $type:ty),*) => {
        match $dtype {
            $(DType::$name => {
                type $number = $type;
                $body
            })*
            DType::Bool => $boolean,
            other => bug(format_args!("a dtype of NumPy, found {other}")),
        }
    };
}

/// Reads the elements. The reader has as many bytes as the header says.
pub(super) fn read_elements(reader: &mut impl Read, header: &Header) -> Result<Tensor, NpyError> {
    let big = header.order == ByteOrder::Big;
    let tensor = with_number!(
        header.dtype,
        Number => chunked(reader, header, |bytes, elements: &mut Vec<Number>| {
            let chunks = bytes.as_chunks::<{ size_of::<Number>() }>().0.iter();
            if big {
                elements.extend(chunks.map(|&chunk| Number::from_be_bytes(chunk)));
            } else {
                elements.extend(chunks.map(|&chunk| Number::from_le_bytes(chunk)));
            }
        })?,
        bool => chunked(reader, header, |bytes, elements: &mut Vec<bool>| {
            elements.extend(bytes.iter().map(|&byte| byte != 0));
        })?
    );
    Ok(if header.fortran { tensor.t() } else { tensor })
}

/// Reads the bytes of all elements in chunks, so that no copy of the whole file is needed.
fn chunked<T: TensorElement>(
    reader: &mut impl Read,
    header: &Header,
    convert: impl Fn(&[u8], &mut Vec<T>),
) -> Result<Tensor, NpyError> {
    let count: usize = header.shape.iter().product();
    let mut elements = Vec::new();
    let cannot = |found: String| NpyError::format(format!("{} elements", header.info()), found);
    elements
        .try_reserve_exact(count)
        .map_err(|error| cannot(error.to_string()))?;
    let mut buffer = vec![0; CHUNK.min(count * header.dtype.bytes())];
    while elements.len() < count {
        let bytes = CHUNK.min((count - elements.len()) * header.dtype.bytes());
        reader
            .read_exact(&mut buffer[..bytes])
            .map_err(|error| cannot(error.to_string()))?;
        convert(&buffer[..bytes], &mut elements);
    }
    let mut shape = header.shape.clone();
    if header.fortran {
        // The elements of an array in column-major order are those of its transpose in row-major order.
        shape.reverse();
    }
    Ok(Tensor::try_new(shape, elements)?)
}

/// Appends the elements of a tensor in row-major order, least significant byte first.
pub(super) fn written_elements(tensor: &Tensor, bytes: &mut Vec<u8>) -> Result<(), NpyError> {
    bytes.reserve_exact(tensor.len() * tensor.dtype().bytes());
    with_number!(
        tensor.dtype(),
        Number => for number in tensor.read::<Number>()? {
            bytes.extend_from_slice(&number.to_le_bytes());
        },
        bool => bytes.extend(tensor.read::<bool>()?.iter().map(|&bit| u8::from(bit)))
    );
    Ok(())
}
