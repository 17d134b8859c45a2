//! The order of the bytes of an element, and sums of elements.

use std::borrow::Cow;

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
        ElementType::BF16 => each!(u16, |a, b| half_sum(ElementType::BF16, a, b)),
        ElementType::F16 => each!(u16, |a, b| half_sum(ElementType::F16, a, b)),
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

/// Returns the bits of the nearest half-precision float to the sum of two of them. The sum as an f64 is rounded first, which does not
/// change the nearest one: an f64 has more than twice their digits.
#[allow(clippy::cast_possible_truncation, reason = "16 bits")]
fn half_sum(dtype: ElementType, a: u16, b: u16) -> u16 {
    let [a, b] = [a, b].map(|bits| dtype.float_from_bits(bits.into()));
    dtype.bits_of_float(a + b) as u16
}
