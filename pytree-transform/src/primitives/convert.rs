//! Conversion between dtypes.

use pytree_core::leaf::NumberKind;
use pytree_kernels::base::narrow::is_narrow;
use pytree_kernels::loops::elementwise;
use pytree_kernels::loops::elementwise::Elementwise;

use crate::primitives::prelude::*;
use crate::tensor::stablehlo::{Bound, bound};

/// Converts each element to a dtype, like Rust's `as`. Converting to bool returns whether the element is nonzero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Convert(pub(crate) DType);

/// Returns the tensor converted to `dtype`, or the tensor itself if it already has that dtype.
#[track_caller]
pub(crate) fn convert(operand: &Tensor, dtype: DType) -> Result<Tensor, TensorError> {
    if operand.dtype() == dtype {
        return Ok(operand.clone());
    }
    bind_one(&Convert(dtype), &[operand])
}

/// Converts floats to integers. As in Rust's `as`, NaN becomes 0, and a float outside of the dtype's range becomes the
/// nearest end of the range. StableHLO does not define the results in these cases, so selections choose them.
fn saturated(block: &mut Block<'_>, operand: &Value, dtype: DType) -> Value {
    let result = AbstractArray::new(dtype, &operand.info.shape);
    // The comparisons below use powers of 2, because every float dtype represents a power of 2 exactly, or as infinity
    // if the power is too large.
    let power_of_two = |bits: usize| (1_u128 << bits) as f64;
    let bits = 8 * dtype.bytes();
    let (below, above) = match dtype.kind() {
        NumberKind::Unsigned => (0.0, power_of_two(bits)),
        _ => (-power_of_two(bits - 1), power_of_two(bits - 1)),
    };
    let mut converted = block.converted(operand, dtype);
    for (direction, limit, end) in [("LE", below, Bound::Least), ("GE", above, Bound::Greatest)] {
        let outside = block.comparison_with(direction, operand, limit);
        let end = block.splat(&result, &bound(dtype, end));
        converted = block.selection(&outside, &end, &converted);
    }
    let is_not_a_number = block.is_not_a_number(operand);
    let zero = block.number(&result, 0.0);
    block.selection(&is_not_a_number, &zero, &converted)
}

impl Primitive for Convert {
    fn name(&self) -> &'static str {
        "convert_element_type"
    }

    fn abstract_evaluation(&self, operands: &[&AbstractArray]) -> AbstractResults {
        Ok(one(AbstractArray::new(self.0, &operands[0].shape)))
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let [operand] = take(operands);
        one(elementwise::converted(operand, self.0))
    }

    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> WithTangents {
        let result = or_panic(convert(&primals[0], self.0));
        let tangent = tangents[0].as_ref().filter(|_| self.0.is_float());
        (
            one(result),
            one(tangent.map(|tangent| or_panic(convert(tangent, self.0)))),
        )
    }

    fn transpose(&self, cotangents: &[Option<Tensor>], operands: &[Linear]) -> Cotangents {
        let dtype = operands[0].info().dtype;
        smallvec![
            cotangents[0]
                .as_ref()
                .map(|cotangent| or_panic(convert(cotangent, dtype)))
        ]
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], _: &BatchAxis) -> Batched {
        (one(or_panic(convert(&operands[0], self.0))), one(axes[0]))
    }

    fn lower(&self, block: &mut Block<'_>, operands: &[Value], _: &Infos<'_>) -> Lowered {
        let operand = &operands[0];
        let (from, to) = (operand.dtype().kind(), self.0.kind());
        Ok(one(match (from, to) {
            (_, NumberKind::Bool) => block.comparison_with("NE", operand, 0.0),
            (NumberKind::Float, NumberKind::Signed | NumberKind::Unsigned) => {
                saturated(block, operand, self.0)
            }
            // XLA would replace the product of a number and a converted bool by a selection between the number and 0.
            // The product of NaN and a converted false must be NaN, but this selection returns 0. XLA keeps the product
            // if the bool is converted by a selection between 1 and 0.
            (NumberKind::Bool, NumberKind::Float) => {
                let result = AbstractArray::new(self.0, &operand.info.shape);
                let (zero, unit) = (block.number(&result, 0.0), block.number(&result, 1.0));
                block.selection(operand, &unit, &zero)
            }
            // The kernel for arrays also rounds to f32 before it rounds to a half-precision dtype.
            (_, NumberKind::Float) if is_narrow(self.0) => {
                let single = block.converted(operand, DType::F32);
                block.converted(&single, self.0)
            }
            _ => block.converted(operand, self.0),
        }))
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "new_dtype={}", self.0)
    }

    fn elementwise(&self) -> Option<Elementwise> {
        Some(Elementwise::Convert(self.0))
    }
}
