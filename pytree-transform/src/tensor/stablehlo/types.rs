//! The types of values, and the bounds of each dtype that the lowering needs.

use std::fmt;

use pytree_base::lists::Joined;
use pytree_core::leaf::NumberKind;
use pytree_kernels::base::dtype::{AbstractArray, DType};

/// The smallest or the greatest number of a dtype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    Least,
    Greatest,
}

/// Returns the smallest or the greatest number of a dtype as text. The bounds of a float dtype are infinities.
pub(crate) fn bound(dtype: DType, bound: Bound) -> String {
    let is_least = bound == Bound::Least;
    if let Some((least, greatest)) = dtype.integer_range() {
        return if is_least { least } else { greatest }.to_string();
    }
    let Some(infinity) = dtype.element().infinity_bits() else {
        return (!is_least).to_string();
    };
    let digits = 2 * dtype.bytes();
    let sign = u64::from(is_least) << (4 * digits - 1);
    format!("0x{:0digits$X}", sign | infinity)
}

/// Returns the number of a dtype whose bits are all 1, as text: `true`, -1 or the greatest number.
pub(crate) fn all_bits(dtype: DType) -> String {
    match dtype.kind() {
        NumberKind::Signed => "-1".to_owned(),
        _ => bound(dtype, Bound::Greatest),
    }
}

/// Displays the type of a value, for instance `tensor<2x3xf32>`.
pub(super) struct TensorType<'a>(pub(super) &'a AbstractArray);

impl fmt::Display for TensorType<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        write_type(&mut text, self.0);
        f.write_str(&text)
    }
}

/// Appends the type of a value, for instance `tensor<2x3xf32>`.
pub(super) fn write_type(text: &mut String, info: &AbstractArray) {
    text.push_str("tensor<");
    for &length in &info.shape {
        write_number(text, length);
        text.push('x');
    }
    text.push_str(info.dtype.element().stablehlo());
    text.push('>');
}

/// Appends a number in decimal digits. This function is several times faster than `write!`. Speed matters because most
/// of a module's text is numbers.
pub(super) fn write_number(text: &mut String, mut number: usize) {
    let mut digits = [0_u8; 20];
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + u8::try_from(number % 10).unwrap_or(0);
        number /= 10;
        if number == 0 {
            break;
        }
    }
    text.extend(digits[first..].iter().map(|&digit| char::from(digit)));
}

/// Displays numbers as an attribute, for instance `array<i64: 0, 2>`.
pub(crate) struct Array64<'a, N>(pub(crate) &'a [N]);

impl<N: fmt::Display> fmt::Display for Array64<'_, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let colon = if self.0.is_empty() { "" } else { ": " };
        write!(f, "array<i64{colon}{}>", Joined(", ", self.0))
    }
}

/// Displays the padding before and after each axis as an attribute, for instance `dense<[[0, 1]]> : tensor<1x2xi64>`.
pub(crate) struct Padding<'a>(pub(crate) &'a [(isize, isize)]);

impl fmt::Display for Padding<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs = self.0.iter();
        let pairs = pairs.map(|(before, after)| format!("[{before}, {after}]"));
        let [start, end] = if self.0.is_empty() {
            ["", ""]
        } else {
            ["[", "]"]
        };
        let pairs = Joined(", ", pairs);
        write!(
            f,
            "dense<{start}{pairs}{end}> : tensor<{}x2xi64>",
            self.0.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_have_the_width_of_the_dtype() {
        let both = |dtype| [Bound::Least, Bound::Greatest].map(|end| bound(dtype, end));
        assert_eq!(both(DType::Bool), ["false", "true"]);
        assert_eq!(both(DType::I8), ["-128", "127"]);
        assert_eq!(both(DType::U32), ["0", "4294967295"]);
        assert_eq!(both(DType::BF16), ["0xFF80", "0x7F80"]);
        assert_eq!(both(DType::F16), ["0xFC00", "0x7C00"]);
        assert_eq!(both(DType::F32), ["0xFF800000", "0x7F800000"]);
        let wide = ["0xFFF0000000000000", "0x7FF0000000000000"];
        assert_eq!(both(DType::F64), wide);
    }
}
