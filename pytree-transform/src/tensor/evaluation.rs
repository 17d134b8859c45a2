//! The evaluation of a primitive on arrays of any dtype.
//!
//! The kernels of primitives compute in wide dtypes: in f32 for half-precision floats, and in 32 bits for narrower
//! integers. So no kernel is compiled for a narrow dtype. Only primitives that move elements accept narrow dtypes, and products of
//! half-precision floats, whose operands may be as large as the weights of a model.

use std::borrow::Cow;
use std::sync::Arc;

use pytree_kernels::base::array::{Array, Operands};
use pytree_kernels::base::dtype::AbstractArray;
use pytree_kernels::base::narrow::{is_narrow, narrowed, widened};
use smallvec::SmallVec;

use crate::base::error::or_panic;
use crate::tensor::primitive::{Outputs, Primitive};

/// Evaluates a primitive. If the primitive does not accept narrow dtypes, widens the operands that have a narrow dtype,
/// and converts each result to the dtype that the shape rule returns.
pub(crate) fn evaluate(primitive: &dyn Primitive, operands: Operands) -> Outputs<Array> {
    let is_narrow = |operand: &Arc<Array>| is_narrow(operand.dtype());
    // The kernels of elementwise operations widen tile by tile.
    let accepts_narrow = primitive.accepts_narrow() || primitive.elementwise().is_some();
    let accepts_halves =
        primitive.accepts_halves() && operands.iter().all(|operand| operand.dtype().is_float());
    if accepts_narrow || accepts_halves || !operands.iter().any(is_narrow) {
        return primitive.evaluate(operands);
    }
    let expected = expected_results(primitive, &operands);
    let wide: Operands = operands
        .into_iter()
        .map(|operand| match widened(&operand) {
            Cow::Owned(wide) => Arc::new(wide),
            Cow::Borrowed(_) => operand,
        })
        .collect();
    let results = primitive.evaluate(wide).into_iter().zip(expected);
    let converted = results.map(|(result, expected)| {
        if result.dtype() == expected.dtype {
            result
        } else {
            narrowed(&result, expected.dtype)
        }
    });
    converted.collect()
}

fn expected_results(primitive: &dyn Primitive, operands: &Operands) -> Outputs<AbstractArray> {
    let infos: SmallVec<[&AbstractArray; 4]> =
        operands.iter().map(|operand| &operand.info).collect();
    or_panic(primitive.abstract_evaluation(&infos))
}
