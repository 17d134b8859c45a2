//! Conversion between dtypes.

use crate::base::array::{Array, Data, not_widened};
use crate::base::dtype::{AbstractArray, ArrayElement, DType};
use crate::base::narrow::{is_narrow, narrowed, wide};

/// Converts an array of a wide dtype to any dtype. Floats that are converted to narrow integers saturate.
pub fn converted(operand: &Array, target: DType) -> Array {
    if !is_narrow(target) {
        return to_wide(operand, target);
    }
    if target.is_float() {
        return narrowed(&to_wide(operand, DType::F32), target);
    }
    if !operand.dtype().is_float() {
        return narrowed(&to_wide(operand, wide(target)), target);
    }
    let (least, greatest) = target.integer_range().unwrap_or_default();
    let mut whole = to_wide(operand, DType::I64);
    if let Some(numbers) = i64::slice_mut(&mut whole.data) {
        numbers
            .iter_mut()
            .for_each(|number| *number = i64::clamp(*number, least, greatest));
    }
    narrowed(&to_wide(&whole, wide(target)), target)
}

macro_rules! converted {
    ($elements:expr, $target:expr, |$x:ident| $i32:expr, $i64:expr, $u32:expr, $f32:expr, $f64:expr, $bool:expr) => {
        match $target {
            DType::Bool => Data::Bool($elements.iter().map(|&$x| $bool).collect()),
            DType::I32 => Data::I32($elements.iter().map(|&$x| $i32).collect()),
            DType::I64 => Data::I64($elements.iter().map(|&$x| $i64).collect()),
            DType::U32 => Data::U32($elements.iter().map(|&$x| $u32).collect()),
            DType::F32 => Data::F32($elements.iter().map(|&$x| $f32).collect()),
            DType::F64 => Data::F64($elements.iter().map(|&$x| $f64).collect()),
            narrow => not_widened(narrow),
        }
    };
}

macro_rules! converted_number {
    ($elements:expr, $target:expr, $zero:expr) => {
        converted!(
            $elements,
            $target,
            |x| x as i32,
            x as i64,
            x as u32,
            x as f32,
            x as f64,
            x != $zero
        )
    };
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::cast_lossless,
    clippy::float_cmp,
    clippy::unnecessary_cast,
    trivial_numeric_casts,
    reason = "converting is what this does, and its rule is that of `as`"
)]
/// Converts an array of a wide dtype to a wide dtype.
fn to_wide(operand: &Array, target: DType) -> Array {
    let data = match &operand.data {
        Data::Bool(elements) => {
            converted!(
                elements,
                target,
                |x| i32::from(x),
                i64::from(x),
                u32::from(x),
                f32::from(u8::from(x)),
                f64::from(u8::from(x)),
                x
            )
        }
        Data::I32(elements) => converted_number!(elements, target, 0),
        Data::I64(elements) => converted_number!(elements, target, 0),
        Data::U32(elements) => converted_number!(elements, target, 0),
        Data::F32(elements) => converted_number!(elements, target, 0.0),
        Data::F64(elements) => converted_number!(elements, target, 0.0),
        _ => not_widened(operand.dtype()),
    };
    Array {
        info: AbstractArray {
            dtype: target,
            shape: operand.info.shape.clone(),
        },
        data,
    }
}
