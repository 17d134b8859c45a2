//! Writes half-precision floats as Python does: `f16` as NumPy, and `bf16` as `ml_dtypes`.

use std::fmt;

use pytree_base::dtype::ElementType;

use crate::base::text::write_float;

/// Writes the value of an `f16` as NumPy does, with the fewest digits that identify it.
///
/// # Errors
/// The errors of the formatter.
pub fn write_f16(f: &mut impl fmt::Write, value: f32) -> fmt::Result {
    if !value.is_finite() || value == 0.0 {
        return write_float(f, &value);
    }
    // NumPy writes numbers from 1000 on with an exponent, because an `f16` has only three certain digits.
    let shortest = shortest_f16(value);
    let (digits, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..3).contains(&exponent) {
        // Parsing the shortest digits as an `f64`, and writing this `f64`, gives the same digits without an exponent.
        return write_float(f, &shortest.parse::<f64>().unwrap_or_default());
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    write!(f, "{digits}e{sign}{:02}", exponent.unsigned_abs())
}

/// Returns the shortest text with an exponent that identifies an `f16`, such as `3.333e-1`.
pub fn shortest_f16(value: f32) -> String {
    let rounded = |value: f32| ElementType::F16.bits_of_float(value.into());
    let mut text = format!("{value:e}");
    for digits in 0..5 {
        let shorter = format!("{value:.digits$e}");
        if shorter.parse().map(rounded) == Ok(rounded(value)) {
            text = shorter;
            break;
        }
    }
    text
}

/// Writes the value of a `bf16` with six significant digits, as `ml_dtypes` and JAX do: `0.100098`, `3`, `1e+20`.
///
/// # Errors
/// The errors of the formatter.
pub fn write_bf16(f: &mut impl fmt::Write, value: f32) -> fmt::Result {
    const DIGITS: i32 = 6;
    if !value.is_finite() {
        return write_float(f, &value);
    }
    let rounded = format!("{value:.*e}", (DIGITS - 1).unsigned_abs() as usize);
    let (digits, exponent) = rounded.split_once('e').unwrap_or((&rounded, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..DIGITS).contains(&exponent) {
        let places = (DIGITS - 1 - exponent).unsigned_abs() as usize;
        return f.write_str(without_zeros(&format!("{value:.places$}")));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    write!(
        f,
        "{}e{sign}{:02}",
        without_zeros(digits),
        exponent.unsigned_abs()
    )
}

/// Removes the zeros after the last digit of a fraction, and a decimal point without a fraction.
fn without_zeros(text: &str) -> &str {
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[allow(clippy::cast_possible_truncation, reason = "a half has fewer digits")]
    fn half(dtype: ElementType, value: f64) -> f32 {
        dtype.float_from_bits(dtype.bits_of_float(value)) as f32
    }

    #[test]
    fn half_floats_are_written_as_in_python() {
        // From numpy 2.4 and ml_dtypes 0.6.
        for (value, text) in [
            (0.1, "0.1"),
            (1.0 / 3.0, "0.3333"),
            (300.3, "300.2"),
            (999.0, "999.0"),
            (1000.0, "1e+03"),
            (2049.0, "2.048e+03"),
            (65504.0, "6.55e+04"),
            (-0.0001, "-0.0001"),
            (0.000_09, "9e-05"),
            (6e-8, "6e-08"),
            (-0.0, "-0.0"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            let mut written = String::new();
            write_f16(&mut written, half(ElementType::F16, value)).unwrap();
            assert_eq!(written, text);
        }
        for (value, text) in [
            (0.1, "0.100098"),
            (3.0, "3"),
            (-1e-5, "-1.00136e-05"),
            (65536.0, "65536"),
            (1e10, "9.99922e+09"),
            (0.001, "0.000999451"),
            (1000.0, "1000"),
            (-0.0, "-0"),
            (f64::NAN, "nan"),
        ] {
            let mut written = String::new();
            write_bf16(&mut written, half(ElementType::BF16, value)).unwrap();
            assert_eq!(written, text);
        }
    }
}
