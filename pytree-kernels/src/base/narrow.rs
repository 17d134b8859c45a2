//! Conversions between narrow dtypes and the wider dtypes in which kernels compute.
//!
//! The conversions of single numbers contain no branches, so the compiler can vectorise loops over them.

use std::borrow::Cow;
use std::ops::Range;

use pytree_base::dtype::NumberKind;

use crate::base::array::{Array, reused, reused_bits};
use crate::base::bits::{Bits, with_bits};
use crate::base::data::Data;
use crate::base::dtype::{AbstractArray, DType};
use crate::base::instructions::leaf;

/// Returns whether a dtype is narrower than the dtype in which kernels compute.
#[inline]
pub const fn is_narrow(dtype: DType) -> bool {
    dtype.bytes() < 4 && !matches!(dtype, DType::Bool)
}

/// Returns the dtype in which kernels compute: f32 for half-precision floats, and an integer of 32 bits for narrower
/// integers. For all other dtypes, returns the dtype itself.
pub const fn wide(dtype: DType) -> DType {
    match dtype.kind() {
        NumberKind::Float if is_narrow(dtype) => DType::F32,
        NumberKind::Signed if is_narrow(dtype) => DType::I32,
        NumberKind::Unsigned if is_narrow(dtype) => DType::U32,
        _ => dtype,
    }
}

/// A half-precision float type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// The upper half of an f32.
    BF16,
    /// The half precision of IEEE 754.
    F16,
}

impl Half {
    /// Returns the half-precision float type of a dtype, or `None` for other dtypes.
    #[inline]
    pub fn of(dtype: DType) -> Option<Self> {
        match dtype {
            DType::BF16 => Some(Self::BF16),
            DType::F16 => Some(Self::F16),
            _ => None,
        }
    }

    /// Rounds each number to the nearest number of this type. The numbers remain f32.
    pub fn round(self, numbers: &mut [f32]) {
        match self {
            Self::BF16 => leaf! {
                for number in numbers.iter_mut() {
                    *number = round_bf16(*number);
                }
            },
            Self::F16 => leaf! {
                for number in numbers.iter_mut() {
                    *number = round_f16(*number);
                }
            },
        }
    }

    /// Converts the bits of numbers of this type to f32.
    pub fn widen(self, bits: &[u16], numbers: &mut [f32]) {
        match self {
            Self::BF16 => leaf! {
                for (number, &bits) in numbers.iter_mut().zip(bits) {
                    *number = widen_bf16(bits);
                }
            },
            Self::F16 => leaf! {
                for (number, &bits) in numbers.iter_mut().zip(bits) {
                    *number = widen_f16(bits);
                }
            },
        }
    }

    /// Rounds numbers to this type, and returns their bits.
    pub fn narrow(self, numbers: &[f32], bits: &mut [u16]) {
        match self {
            Self::BF16 => leaf! {
                for (bits, &number) in bits.iter_mut().zip(numbers) {
                    *bits = narrow_bf16(number);
                }
            },
            Self::F16 => leaf! {
                for (bits, &number) in bits.iter_mut().zip(numbers) {
                    *bits = narrow_f16(number);
                }
            },
        }
    }
}

/// Returns the number of a dtype that a number becomes as with Rust's `as`. A bool becomes 0 or 1.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "the conversions are those of `as`"
)]
pub fn rounded_to(dtype: DType, number: f64) -> f64 {
    if let Some(half) = Half::of(dtype) {
        let mut rounded = [number as f32];
        half.round(&mut rounded);
        return rounded[0].into();
    }
    match dtype.integer_range() {
        Some((least, most)) => (number as i64).clamp(least, most) as f64,
        None if dtype == DType::Bool => u8::from(number != 0.0).into(),
        None => number,
    }
}

/// Selects all bits of an f32 except the sign bit. Below, the selected bits are called the size of the number.
const SIZE: u32 = 0x7fff_ffff;

/// The bits of ∞ as an f32. A number is NaN if its bits without the sign bit are greater.
const INFINITY: u32 = 0x7f80_0000;

/// The bit that makes a NaN quiet.
const QUIET: u32 = 0x0040_0000;

#[inline(always)]
pub(crate) fn widen_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// Rounds to the nearest f32 whose lower 16 bits are 0, ties to even.
#[inline(always)]
fn round_bf16(number: f32) -> f32 {
    let bits = number.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1));
    let is_nan = bits & SIZE > INFINITY;
    f32::from_bits(if is_nan { bits | QUIET } else { rounded } & 0xffff_0000)
}

#[inline(always)]
#[allow(
    clippy::cast_possible_truncation,
    reason = "the number of shifted bits"
)]
pub(crate) fn narrow_bf16(number: f32) -> u16 {
    (round_bf16(number).to_bits() >> 16) as u16
}

/// 2¹¹² is the ratio of the smallest normal numbers of f16 and f32.
const SCALE: f32 = f32::from_bits((127 + 112) << 23);

#[inline(always)]
pub(crate) fn widen_f16(bits: u16) -> f32 {
    let (sign, size) = (u32::from(bits & 0x8000) << 16, u32::from(bits & 0x7fff));
    // The biased exponent of a number is 112 less in f16 than in f32. The product is exact, even for subnormals.
    let finite = (f32::from_bits(size << 13) * SCALE).to_bits();
    let widened = if size < 0x7c00 {
        finite
    } else {
        INFINITY | size << 13
    };
    f32::from_bits(sign | widened)
}

/// Rounds to the nearest f16, ties to even.
#[inline(always)]
fn round_f16(number: f32) -> f32 {
    /// The smallest normal f16, 2⁻¹⁴.
    const NORMAL: u32 = (127 - 14) << 23;
    /// The bits of 65520 as an f32, the smallest positive number that rounds to ∞.
    const LARGE: u32 = 0x477f_f000;
    let bits = number.to_bits();
    let size = bits & SIZE;
    let normal = (size + (0x0fff + (size >> 13 & 1))) & 0xffff_e000;
    // The distance between f32 numbers near 1/2 is 2⁻²⁴. The distance between subnormals of f16 is the same, so the sum
    // is rounded like an f16.
    let subnormal = ((f32::from_bits(size) + 0.5) - 0.5).to_bits();
    let finite = if size < NORMAL { subnormal } else { normal };
    let rounded = if size < LARGE { finite } else { INFINITY };
    let nan = (size | QUIET) & 0xffff_e000;
    f32::from_bits(bits & !SIZE | if size > INFINITY { nan } else { rounded })
}

#[inline(always)]
#[allow(
    clippy::cast_possible_truncation,
    reason = "an f16 has 5 bits of exponent and 10 bits of mantissa"
)]
pub(crate) fn narrow_f16(number: f32) -> u16 {
    let rounded = round_f16(number).to_bits();
    let (sign, size) = (rounded >> 16 & 0x8000, rounded & SIZE);
    let finite = (f32::from_bits(size) / SCALE).to_bits() >> 13;
    let narrowed = if size < INFINITY {
        finite
    } else {
        0x7c00 | size >> 13 & 0x3ff
    };
    (sign | narrowed) as u16
}

/// Returns an array in the dtype in which kernels compute.
pub fn widened(array: &Array) -> Cow<'_, Array> {
    if !is_narrow(array.dtype()) {
        return Cow::Borrowed(array);
    }
    let mut wide = widened_part(array, 0..array.info.len());
    wide.info.shape.clone_from(&array.info.shape);
    Cow::Owned(wide)
}

/// Returns a row of elements of a narrow array, in the dtype in which kernels compute. Bools become i32.
pub fn widened_part(array: &Array, range: Range<usize>) -> Array {
    let (dtype, length) = (array.dtype(), range.len());
    if dtype == DType::Bool {
        let ones = extended(array, range, |bit: bool| u32::from(bit));
        return Array::from_bits(DType::I32, [length], ones);
    }
    let data = if let Some(half) = Half::of(dtype) {
        let mut numbers = reused::<f32>(length);
        half.widen(&array.bits()[range], &mut numbers);
        Data::F32(numbers)
    } else {
        let by_sign = matches!(dtype, DType::I8 | DType::I16);
        u32::data(widened_integers(array, range, by_sign), wide(dtype))
    };
    Array::from_data(AbstractArray::new(wide(dtype), [length]), data)
}

/// Returns the bits of integers of 8 or 16 bits, extended to 32 bits.
fn widened_integers(array: &Array, range: Range<usize>, by_sign: bool) -> Vec<u32> {
    let one_byte = array.dtype().bytes() == 1;
    match (one_byte, by_sign) {
        (true, true) => extended(array, range, |bits: u8| {
            i32::from(bits.cast_signed()).cast_unsigned()
        }),
        (true, false) => extended(array, range, |bits: u8| u32::from(bits)),
        (false, true) => extended(array, range, |bits: u16| {
            i32::from(bits.cast_signed()).cast_unsigned()
        }),
        (false, false) => extended(array, range, |bits: u16| u32::from(bits)),
    }
}

fn extended<T: Bits>(array: &Array, range: Range<usize>, extend: impl Fn(T) -> u32) -> Vec<u32> {
    let mut wide = reused_bits(DType::U32, range.len());
    for (wide, &bits) in wide.iter_mut().zip(&array.bits::<T>()[range]) {
        *wide = extend(bits);
    }
    wide
}

/// Converts an array of the wide dtype to a narrow dtype: rounds floats, and keeps the lower bits of integers.
pub fn narrowed(array: &Array, dtype: DType) -> Array {
    let mut narrow = Array::reused(&AbstractArray::new(dtype, &array.info.shape));
    write_part(array, 0..array.info.len(), &mut narrow, 0);
    narrow
}

/// Writes elements to a result, from the position `at` on. A result of a narrow dtype rounds floats, and keeps the lower bits of
/// integers.
#[allow(
    clippy::cast_possible_truncation,
    reason = "integers keep their lower bits"
)]
pub fn write_part(array: &Array, range: Range<usize>, result: &mut Array, at: usize) {
    let (dtype, to) = (result.dtype(), at..at + range.len());
    if dtype == array.dtype() {
        with_bits!(dtype, T => result.bits_mut::<T>()[to].copy_from_slice(&array.bits::<T>()[range]));
    } else if let Some(half) = Half::of(dtype) {
        half.narrow(&array.elements()[range], &mut result.bits_mut()[to]);
    } else {
        let wide = array.bits::<u32>()[range].iter();
        match dtype.bytes() {
            1 => (result.bits_mut::<u8>()[to].iter_mut())
                .zip(wide)
                .for_each(|(bits, &wide)| *bits = wide as u8),
            _ => (result.bits_mut::<u16>()[to].iter_mut())
                .zip(wide)
                .for_each(|(bits, &wide)| *bits = wide as u16),
        }
    }
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;

    #[test]
    fn kernels_compute_in_wide_dtypes() {
        for &dtype in DType::ALL {
            let wide = match dtype {
                DType::I8 | DType::I16 => DType::I32,
                DType::U8 | DType::U16 => DType::U32,
                DType::BF16 | DType::F16 => DType::F32,
                other => other,
            };
            assert_eq!(
                (super::wide(dtype), is_narrow(dtype)),
                (wide, wide != dtype)
            );
        }
    }

    /// Returns f32s of all sizes, including ties and the neighbours of all half-precision numbers.
    fn numbers() -> impl Iterator<Item = f32> {
        let near = |bits: u32| [bits.wrapping_sub(1), bits, bits.wrapping_add(1)];
        let halves = (0..=u16::MAX).flat_map(move |bits| {
            let [wide, f16] = [
                u32::from(bits) << 16,
                f16::from_bits(bits).to_f32().to_bits(),
            ];
            [wide, wide | 0x8000, f16, f16.wrapping_add(0x1000)]
                .into_iter()
                .flat_map(near)
        });
        halves
            .chain((0..u32::MAX).step_by(9973))
            .map(f32::from_bits)
    }

    #[test]
    fn rounding_agrees_with_half() {
        for x in numbers() {
            let (narrow, expected) = (bf16::from_bits(narrow_bf16(x)), bf16::from_f32(x));
            assert_eq!(narrow.to_bits(), expected.to_bits(), "{x:e}");
            assert_eq!(
                round_bf16(x).to_bits(),
                widen_bf16(narrow.to_bits()).to_bits(),
                "{x:e}"
            );
            let (narrow, expected) = (f16::from_bits(narrow_f16(x)), f16::from_f32_const(x));
            assert_eq!(narrow.to_bits(), expected.to_bits(), "{x:e}");
            assert_eq!(
                round_f16(x).to_bits(),
                widen_f16(narrow.to_bits()).to_bits(),
                "{x:e}"
            );
        }
    }

    #[test]
    fn widening_agrees_with_half() {
        for bits in 0..=u16::MAX {
            let (bf16, f16) = (bf16::from_bits(bits), f16::from_bits(bits));
            if !bf16.is_nan() {
                assert_eq!(widen_bf16(bits).to_bits(), bf16.to_f32().to_bits());
            }
            if !f16.is_nan() {
                assert_eq!(widen_f16(bits).to_bits(), f16.to_f32_const().to_bits());
            }
            assert_eq!(
                (bf16.is_nan(), f16.is_nan()),
                (widen_bf16(bits).is_nan(), widen_f16(bits).is_nan())
            );
        }
    }
}
