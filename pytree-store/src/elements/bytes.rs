//! The order of the bytes of an element, and sums of elements.

use std::borrow::Cow;

use half::{bf16, f16};
use pytree_core::ElementType;

/// Returns elements in the byte order of the host as elements whose least significant byte is first, or the other way round.
pub(crate) fn little_endian(bytes: Cow<'_, [u8]>, dtype: ElementType) -> Cow<'_, [u8]> {
    if cfg!(target_endian = "little") {
        return bytes;
    }
    let mut bytes = bytes.into_owned();
    swap_bytes(&mut bytes, dtype);
    Cow::Owned(bytes)
}

/// Reverses the bytes of each element.
pub(crate) fn swap_bytes(bytes: &mut [u8], dtype: ElementType) {
    for element in bytes.chunks_exact_mut(dtype.bytes()) {
        element.reverse();
    }
}

/// Adds elements in the byte order of the host, as the operation of tensors does: integers wrap, and a half-precision float is the
/// rounded sum of two f32. The sum of two bools is their disjunction.
pub(crate) fn add(sum: &mut [u8], other: &[u8], dtype: ElementType) {
    macro_rules! each {
        ($number:ty, $add:expr) => {{
            let others = other.as_chunks().0;
            for (sum, other) in sum.as_chunks_mut().0.iter_mut().zip(others) {
                let add: fn($number, $number) -> $number = $add;
                *sum = add(
                    <$number>::from_ne_bytes(*sum),
                    <$number>::from_ne_bytes(*other),
                )
                .to_ne_bytes();
            }
        }};
    }
    match dtype {
        ElementType::BF16 => each!(bf16, |a, b| bf16::from_f32(a.to_f32() + b.to_f32())),
        ElementType::F16 => each!(f16, |a, b| f16::from_f32(a.to_f32() + b.to_f32())),
        ElementType::F32 => each!(f32, |a, b| a + b),
        ElementType::F64 => each!(f64, |a, b| a + b),
        ElementType::Bool => each!(u8, |a, b| a | b),
        // The sum of integers has the same bits with and without a sign.
        _ => match dtype.bytes() {
            1 => each!(u8, u8::wrapping_add),
            2 => each!(u16, u16::wrapping_add),
            4 => each!(u32, u32::wrapping_add),
            _ => each!(u64, u64::wrapping_add),
        },
    }
}
