//! Rounding as in JAX: functions of f64 numbers that represent numbers of a float dtype, and products that are added
//! without rounding.

use pytree_transform::{DType, Tensor, bf16, f16};

/// Returns `x · y + z` of f32 numbers with one rounding, as XLA computes it: the product of two f32 numbers is exact in
/// f64. An operand may already be converted to f64.
#[track_caller]
pub(crate) fn product_plus(x: &Tensor, y: &Tensor, z: &Tensor) -> Tensor {
    let wide = |operand: &Tensor| operand.convert(DType::F64);
    (wide(x) * wide(y) + wide(z)).convert(DType::F32)
}

/// Returns `value` rounded to a float dtype. JAX rounds each step of a computation in this way.
#[allow(clippy::cast_possible_truncation, reason = "the function rounds")]
pub(crate) fn rounded(dtype: DType, value: f64) -> f64 {
    match dtype {
        DType::F64 => value,
        DType::BF16 => bf16::from_f32(value as f32).into(),
        DType::F16 => f16::from_f32(value as f32).into(),
        _ => f64::from(value as f32),
    }
}

/// Returns the smallest number of a float dtype above `value`, which is rounded first.
pub(crate) fn next_up(dtype: DType, value: f64) -> f64 {
    let value = rounded(dtype, value);
    match dtype {
        DType::F64 => value.next_up(),
        DType::BF16 => bf16::from_bits(bits_above(
            bf16::from_f64(value).to_bits(),
            bf16::INFINITY.to_bits(),
        ))
        .into(),
        DType::F16 => f16::from_bits(bits_above(
            f16::from_f64(value).to_bits(),
            f16::INFINITY.to_bits(),
        ))
        .into(),
        #[allow(clippy::cast_possible_truncation, reason = "the number is an f32")]
        _ => f64::from((value as f32).next_up()),
    }
}

/// Returns the greatest number of a float dtype below `value`, which is rounded first.
pub(crate) fn next_down(dtype: DType, value: f64) -> f64 {
    -next_up(dtype, -value)
}

/// Returns the least positive normal number of a float dtype.
pub(crate) fn least_normal(dtype: DType) -> f64 {
    let range = dtype.element().float_range();
    range.map_or(0.0, |(least, _)| least)
}

/// Returns the bits of the next number above a half-precision float. Positive infinity, whose bits depend on the dtype,
/// does not change.
fn bits_above(bits: u16, infinity: u16) -> u16 {
    const SIGN: u16 = 0x8000;
    match bits {
        0 | SIGN => 1,
        _ if bits == infinity => bits,
        negative if negative & SIGN != 0 => negative - 1,
        positive => positive + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_have_distance_of_dtype() {
        for (dtype, digits) in [
            (DType::BF16, 8),
            (DType::F16, 11),
            (DType::F32, 24),
            (DType::F64, 53),
        ] {
            let distance = f64::from(2 - digits).exp2();
            assert!(
                (next_up(dtype, 1.0) - 1.0 - distance / 2.0).abs() < 1e-300,
                "{dtype}"
            );
            assert!(
                (next_down(dtype, 1.0) - 1.0 + distance / 4.0).abs() < 1e-300,
                "{dtype}"
            );
            assert!(
                (next_up(dtype, -2.0) + 2.0 - distance / 2.0).abs() < 1e-300,
                "{dtype}"
            );
            assert!(
                next_up(dtype, 0.0) > 0.0 && next_down(dtype, 0.0) < 0.0,
                "{dtype}"
            );
            assert!(next_up(dtype, f64::INFINITY).is_infinite(), "{dtype}");
        }
        // Read as an f16, the bits of this bf16 number would be infinity.
        let large = 121.0_f64.exp2();
        for dtype in [DType::BF16, DType::F32, DType::F64] {
            assert!(next_up(dtype, large) > large, "{dtype}");
        }
    }
}
