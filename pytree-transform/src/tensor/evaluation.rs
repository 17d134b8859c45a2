//! The evaluation of a primitive on arrays of any dtype.
//!
//! The kernels of primitives compute in wide dtypes: in f32 for half-precision floats, and in 32 bits for narrower
//! integers. So no kernel is compiled for a narrow dtype. Only primitives that move elements accept narrow dtypes, elementwise
//! operations and reductions, which widen tile by tile, and products and scattered sums of half-precision floats, whose operands or
//! results may be as large as the weights of a model. For the others, operands are widened part by part if the evaluation can be divided.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use pytree_base::bug::expect_next;
use pytree_kernels::base::array::{Array, Operands, row_major_strides};
use pytree_kernels::base::dtype::AbstractArray;
use pytree_kernels::base::narrow::{is_narrow, narrowed, wide, widened, write_part};
use pytree_kernels::loops::strided;
use smallvec::SmallVec;

use crate::base::error::{TensorError, or_panic};
use crate::tensor::primitive::{Division, Outputs, Primitive, one};

/// The bytes of the widened operands and results of a part.
const PART: usize = 256 << 10;

/// Evaluates a primitive, and panics if the computation fails; see [`try_evaluate`].
#[inline]
pub(crate) fn evaluate(primitive: &dyn Primitive, operands: Operands) -> Outputs<Array> {
    or_panic(try_evaluate(primitive, operands))
}

/// Evaluates a primitive. If the primitive does not accept narrow dtypes, widens the operands that have a narrow dtype,
/// and converts each result to the dtype that the shape rule returns.
pub(crate) fn try_evaluate(
    primitive: &dyn Primitive,
    operands: Operands,
) -> Result<Outputs<Array>, TensorError> {
    let is_narrow = |operand: &Arc<Array>| is_narrow(operand.dtype());
    let accepts_narrow = primitive.accepts_narrow() || primitive.widens_parts();
    let accepts_halves = primitive.accepts_halves()
        && operands
            .iter()
            .all(|it| it.dtype().is_float() || !is_narrow(it));
    if accepts_narrow || accepts_halves || !operands.iter().any(is_narrow) {
        return primitive.try_evaluate(operands);
    }
    let infos: SmallVec<[&AbstractArray; 4]> =
        operands.iter().map(|operand| &operand.info).collect();
    let expected = or_panic(primitive.abstract_evaluation(&infos));
    if let Some(division) = primitive.division(&infos) {
        return Ok(one(divided(primitive, &operands, &division, &expected[0])));
    }
    let results = primitive
        .try_evaluate(operands.iter().map(wide_operand).collect())?
        .into_iter()
        .zip(expected);
    let converted = results.map(|(result, expected)| {
        if result.dtype() == expected.dtype {
            result
        } else {
            narrowed(&result, expected.dtype)
        }
    });
    Ok(converted.collect())
}

/// Returns an operand in the dtype in which kernels compute.
fn wide_operand(operand: &Arc<Array>) -> Arc<Array> {
    match widened(operand) {
        Cow::Owned(wide) => Arc::new(wide),
        Cow::Borrowed(_) => Arc::clone(operand),
    }
}

/// Evaluates a primitive part by part, so that only a part of the operands and of the result is wide at a time.
fn divided(
    primitive: &dyn Primitive,
    operands: &Operands,
    division: &Division,
    expected: &AbstractArray,
) -> Array {
    let mut result = Array::reused(expected);
    let length = expected.shape[division.result];
    let axes = || operands.iter().zip(&division.operands);
    let bytes = |info: &AbstractArray| info.len() * wide(info.dtype).bytes();
    let divided = axes().filter(|(_, axis)| axis.is_some());
    let all: usize = divided.map(|(operand, _)| bytes(&operand.info)).sum();
    let count = (PART * length / (all + bytes(expected)).max(1)).max(1);
    // The operands that each part reads as a whole.
    let whole: Operands = axes()
        .map(|(operand, axis)| match axis {
            Some(_) => Arc::clone(operand),
            None => wide_operand(operand),
        })
        .collect();
    for start in (0..length).step_by(count) {
        let range = start..length.min(start + count);
        let parts = whole.iter().zip(&division.operands);
        let parts = parts.map(|(operand, axis)| match axis {
            Some(axis) => wide_operand(&Arc::new(part(operand, *axis, range.clone()))),
            None => Arc::clone(operand),
        });
        let part = expect_next(
            &mut primitive.evaluate(parts.collect()).into_iter(),
            "a result",
        );
        let inner: usize = expected.shape[division.result + 1..].iter().product();
        let size = range.len() * inner;
        for block in 0..part.info.len() / size.max(1) {
            let at = (block * length + start) * inner;
            write_part(&part, block * size..(block + 1) * size, &mut result, at);
        }
    }
    result
}

/// Returns a slice along an axis.
fn part(array: &Array, axis: usize, range: Range<usize>) -> Array {
    let mut shape = array.info.shape.clone();
    shape[axis] = range.len();
    let strides = row_major_strides(array.shape());
    let steps: SmallVec<[isize; 4]> = strides.iter().map(|stride| stride.cast_signed()).collect();
    strided::gather(array, &shape, &steps, range.start * strides[axis])
}
