//! Constants as text.

use std::fmt::Write as _;

use pytree_base::for_each_dtype;
use pytree_kernels::base::array::Array;
use pytree_kernels::base::bits::with_bits;
use pytree_kernels::base::dtype::{ArrayElement, DType, with_type};

use crate::tensor::stablehlo::types::write_type;

/// A constant of at most this many elements is written as a list of numbers, which people can read. Longer constants
/// are written as hexadecimal digits.
const READABLE: usize = 16;

/// A constant of at most this many elements is part of the text, and takes at most 16 KiB. Longer constants are
/// arguments of the module for two reasons. A text of several megabytes is slow to parse. XLA also folds operations on
/// large constants, which is slow.
const LITERAL: usize = 1024;

/// Displays lists of the same length as an attribute, for instance `dense<[[0, 1]]> : tensor<1x2xi64>`.
pub(crate) fn table(rows: &[Vec<usize>]) -> String {
    let width = rows.first().map_or(0, Vec::len);
    let rows_text: Vec<String> = rows.iter().map(|row| format!("{row:?}")).collect();
    let mut text = format!("dense<[{}]>", rows_text.join(", "));
    if rows.is_empty() {
        "dense<>".clone_into(&mut text);
    }
    let _ = write!(text, " : tensor<{}x{width}xi64>", rows.len());
    text
}

/// An element that can be written as text.
pub(crate) trait Literal: ArrayElement {
    /// Appends the element, for instance `1.5`. A float without an exact decimal form, such as NaN, is written as its
    /// bits in hexadecimal digits.
    fn write(self, text: &mut String);

    /// Appends the bytes of the element as hexadecimal digits, beginning with the lowest byte.
    fn write_bytes(self, text: &mut String);
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

macro_rules! literal {
    (bool $type:ty) => {
        impl Literal for $type {
            fn write(self, text: &mut String) {
                text.push_str(if self { "true" } else { "false" });
            }

            fn write_bytes(self, text: &mut String) {
                write_hexadecimal(text, &[u8::from(self)]);
            }
        }
    };
    (integer $type:ty) => {
        impl Literal for $type {
            fn write(self, text: &mut String) {
                let _ = write!(text, "{self}");
            }

            fn write_bytes(self, text: &mut String) {
                write_hexadecimal(text, &self.to_le_bytes());
            }
        }
    };
    ($float:ident $type:ty) => {
        #[allow(
            clippy::cast_possible_truncation,
            trivial_numeric_casts,
            reason = "a reader of the text rounds an f64 to the type in the same way"
        )]
        impl Literal for $type {
            fn write(self, text: &mut String) {
                let start = text.len();
                let _ = write!(text, "{self:?}");
                let written = &text[start..];
                // StableHLO requires a decimal point.
                match written.find('e') {
                    Some(exponent) if !written.contains('.') => {
                        text.insert_str(start + exponent, ".0");
                    }
                    None if !written.contains('.') => text.push_str(".0"),
                    _ => {}
                }
                let read = text[start..].parse().map(rounded!($float));
                if !self.is_finite() || read.map(Self::to_bits) != Ok(self.to_bits()) {
                    text.truncate(start);
                    text.push_str("0x");
                    write_hexadecimal(text, &self.to_be_bytes());
                }
            }

            fn write_bytes(self, text: &mut String) {
                write_hexadecimal(text, &self.to_le_bytes());
            }
        }
    };
}

/// Returns a function that rounds an f64 to a float type.
macro_rules! rounded {
    (half) => {
        Self::from_f64
    };
    (float) => {
        |number: f64| number as Self
    };
}

macro_rules! literals {
    ($([$kind:ident $dtype:ident $type:ty])*) => {
        $(literal!($kind $type);)*
    };
}
for_each_dtype!([literals]);

/// Returns whether a constant is part of the text: whether it is short or all its elements are equal.
pub(super) fn is_literal(array: &Array) -> bool {
    array.info.len() <= LITERAL || is_splat(array)
}

/// Returns whether the array has elements and all elements have the same bits.
fn is_splat(array: &Array) -> bool {
    with_bits!(array.dtype(), T => {
        let elements = array.bits::<T>();
        let equals_first = |first: &T| elements.iter().all(|element| element == first);
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
            // Write bools as lists, because the versions of StableHLO read the hexadecimal form of bools in different
            // ways.
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
pub(crate) fn number(dtype: DType, value: f64) -> String {
    let mut text = String::new();
    with_type!(dtype, T => <T as ArrayElement>::from_number(value).write(&mut text));
    text
}
