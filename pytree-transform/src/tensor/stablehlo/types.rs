//! The types of values, and the properties of each dtype that the lowering needs. A new dtype is added here.

use std::fmt;

use crate::base::dtype::{AbstractArray, DType};

/// Returns the name of a dtype in StableHLO.
pub(super) fn element_type(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "i1",
        DType::I8 => "i8",
        DType::I16 => "i16",
        DType::I32 => "i32",
        DType::I64 => "i64",
        DType::U8 => "ui8",
        DType::U16 => "ui16",
        DType::U32 => "ui32",
        DType::BF16 => "bf16",
        DType::F16 => "f16",
        DType::F32 => "f32",
        DType::F64 => "f64",
    }
}

/// The kind of numbers that a dtype holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NumberKind {
    Bool,
    Signed,
    Unsigned,
    Float,
}

/// Returns the kind of numbers that a dtype holds.
pub(crate) fn number_kind(dtype: DType) -> NumberKind {
    match dtype {
        DType::Bool => NumberKind::Bool,
        DType::I8 | DType::I16 | DType::I32 | DType::I64 => NumberKind::Signed,
        DType::U8 | DType::U16 | DType::U32 => NumberKind::Unsigned,
        DType::BF16 | DType::F16 | DType::F32 | DType::F64 => NumberKind::Float,
    }
}

/// The smallest or the greatest number of a dtype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    Least,
    Greatest,
}

/// Returns the smallest or the greatest number of a dtype as text. The bounds of a float dtype are infinities.
pub(crate) fn bound(dtype: DType, bound: Bound) -> String {
    let is_least = bound == Bound::Least;
    let of = |least: i64, greatest: i64| if is_least { least } else { greatest }.to_string();
    match dtype {
        DType::Bool => (!is_least).to_string(),
        DType::I8 => of(i8::MIN.into(), i8::MAX.into()),
        DType::I16 => of(i16::MIN.into(), i16::MAX.into()),
        DType::I32 => of(i32::MIN.into(), i32::MAX.into()),
        DType::I64 => of(i64::MIN, i64::MAX),
        DType::U8 => of(0, u8::MAX.into()),
        DType::U16 => of(0, u16::MAX.into()),
        DType::U32 => of(0, u32::MAX.into()),
        DType::BF16 => if is_least { "0xFF80" } else { "0x7F80" }.to_owned(),
        DType::F16 => if is_least { "0xFC00" } else { "0x7C00" }.to_owned(),
        DType::F32 => if is_least { "0xFF800000" } else { "0x7F800000" }.to_owned(),
        DType::F64 => if is_least {
            "0xFFF0000000000000"
        } else {
            "0x7FF0000000000000"
        }
        .to_owned(),
    }
}

/// Returns the number of a dtype whose bits are all 1, as text: `true`, -1 or the greatest number.
pub(crate) fn all_bits(dtype: DType) -> String {
    match number_kind(dtype) {
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
    text.push_str(element_type(info.dtype));
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
        f.write_str("array<i64")?;
        for (position, number) in self.0.iter().enumerate() {
            f.write_str(if position == 0 { ": " } else { ", " })?;
            number.fmt(f)?;
        }
        f.write_str(">")
    }
}

/// Displays the padding before and after each axis as an attribute, for instance `dense<[[0, 1]]> : tensor<1x2xi64>`.
pub(crate) struct Padding<'a>(pub(crate) &'a [(isize, isize)]);

impl fmt::Display for Padding<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("dense<")?;
        for (position, (before, after)) in self.0.iter().enumerate() {
            let separator = if position == 0 { "[" } else { ", " };
            write!(f, "{separator}[{before}, {after}]")?;
        }
        let end = if self.0.is_empty() { "" } else { "]" };
        write!(f, "{end}> : tensor<{}x2xi64>", self.0.len())
    }
}
