//! Constants as text.

use std::fmt::Write as _;

use crate::base::array::{Array, with_type};
use crate::base::dtype::{DType, TensorElement};
use crate::tensor::stablehlo::types::write_type;

/// The number of elements up to which a constant is written as a list of numbers, which people can read. Longer
/// constants are written as hexadecimal digits.
const READABLE: usize = 16;

/// The number of elements up to which a constant is part of the text. Longer constants are arguments of the module,
/// because a text of several megabytes is slow to parse, and XLA folds operations on large constants, which is slow,
/// too. 1024 elements are at most 16 KiB of text.
const LITERAL: usize = 1024;

/// An element that can be written as text.
pub(crate) trait Literal: TensorElement {
    /// Appends the element, for instance `1.5`. A float that has no exact decimal form, such as NaN, is written as its
    /// bits in hexadecimal digits.
    fn write(self, text: &mut String);

    /// Appends the bytes of the element, the lowest first, as hexadecimal digits.
    fn write_bytes(self, text: &mut String);

    /// Returns whether two elements have the same bits. Unlike `==`, this distinguishes -0 from 0.
    fn has_bits_of(self, other: Self) -> bool;
}

fn write_hexadecimal(text: &mut String, bytes: &[u8]) {
    const DIGITS: [char; 16] = [
        '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F',
    ];
    for byte in bytes {
        text.push(DIGITS[usize::from(byte >> 4)]);
        text.push(DIGITS[usize::from(byte & 15)]);
    }
}

impl Literal for bool {
    fn write(self, text: &mut String) {
        text.push_str(if self { "true" } else { "false" });
    }

    fn write_bytes(self, text: &mut String) {
        write_hexadecimal(text, &[u8::from(self)]);
    }

    fn has_bits_of(self, other: Self) -> bool {
        self == other
    }
}

macro_rules! integer_literals {
    ($($integer:ty),*) => {$(
        impl Literal for $integer {
            fn write(self, text: &mut String) {
                let _ = write!(text, "{self}");
            }

            fn write_bytes(self, text: &mut String) {
                write_hexadecimal(text, &self.to_le_bytes());
            }

            fn has_bits_of(self, other: Self) -> bool {
                self == other
            }
        }
    )*};
}
integer_literals!(i32, i64, u32);

macro_rules! float_literals {
    ($($float:ty),*) => {$(
        #[allow(
            clippy::cast_possible_truncation,
            trivial_numeric_casts,
            reason = "a reader of the text rounds an f64 to the type in the same way"
        )]
        impl Literal for $float {
            fn write(self, text: &mut String) {
                let start = text.len();
                let _ = write!(text, "{self:?}");
                let written = &text[start..];
                // A decimal number needs a point.
                if let Some(exponent) = written.find('e').filter(|_| !written.contains('.')) {
                    text.insert_str(start + exponent, ".0");
                }
                let read = text[start..].parse::<f64>().map(|number| number as Self);
                if !self.is_finite() || read.map(Self::to_bits) != Ok(self.to_bits()) {
                    text.truncate(start);
                    text.push_str("0x");
                    write_hexadecimal(text, &self.to_be_bytes());
                }
            }

            fn write_bytes(self, text: &mut String) {
                write_hexadecimal(text, &self.to_le_bytes());
            }

            fn has_bits_of(self, other: Self) -> bool {
                self.to_bits() == other.to_bits()
            }
        }
    )*};
}
float_literals!(f32, f64);

/// Returns whether a constant is part of the text: it is short, or all its elements are equal.
pub(super) fn is_literal(array: &Array) -> bool {
    array.info.len() <= LITERAL || is_splat(array)
}

/// Returns whether there are elements, and all have the same bits.
fn is_splat(array: &Array) -> bool {
    with_type!(array.dtype(), T => {
        let elements = array.elements::<T>();
        let equals_first = |first: &T| elements.iter().all(|&element| element.has_bits_of(*first));
        elements.first().is_some_and(equals_first)
    })
}

/// Returns the attribute of a constant, for instance `dense<[1.0, 2.0]> : tensor<2xf32>`.
pub(super) fn dense(array: &Array) -> String {
    let mut text = "dense<".to_owned();
    with_type!(array.dtype(), T => {
        let elements = array.elements::<T>();
        if elements.is_empty() {
        } else if array.info.rank() == 0 || is_splat(array) {
            elements[0].write(&mut text);
        } else if elements.len() <= READABLE || array.dtype() == DType::Bool {
            // Bools have no hexadecimal form that all versions read in the same way.
            write_nested(&mut text, elements, array.shape());
        } else {
            text.push_str("\"0x");
            elements.iter().for_each(|element| element.write_bytes(&mut text));
            text.push('"');
        }
    });
    text.push_str("> : ");
    write_type(&mut text, &array.info);
    text
}

/// Appends elements as nested lists.
fn write_nested<T: Literal>(text: &mut String, elements: &[T], shape: &[usize]) {
    let Some((_, inner)) = shape.split_first() else {
        elements[0].write(text);
        return;
    };
    text.push('[');
    let length = inner.iter().product::<usize>().max(1);
    for (position, part) in elements.chunks_exact(length).enumerate() {
        if position > 0 {
            text.push_str(", ");
        }
        write_nested(text, part, inner);
    }
    text.push(']');
}

/// Returns a number as text, converted to a dtype like Rust's `as`.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the rule is that of `as`"
)]
pub(crate) fn number(dtype: DType, value: f64) -> String {
    let mut text = String::new();
    match dtype {
        DType::Bool => (value != 0.0).write(&mut text),
        DType::I32 => (value as i32).write(&mut text),
        DType::I64 => (value as i64).write(&mut text),
        DType::U32 => (value as u32).write(&mut text),
        DType::F32 => (value as f32).write(&mut text),
        DType::F64 => value.write(&mut text),
    }
    text
}
