//! Tangents of results without a formula of their own. They are those of an equivalent function.

use crate::primitives::create;
use crate::primitives::elementwise::{align_batch, aligned_axis, same_info};
use crate::primitives::prelude::*;
use crate::tensor::trace::{Interpreter, Trace};

/// Returns the tangent of the result of `function` at `primal`, where `tangent` is the tangent of `primal`.
pub(crate) fn tangent_of(
    function: impl FnOnce(&Tensor) -> Tensor,
    primal: &Tensor,
    tangent: &Tensor,
) -> Tensor {
    let trace = Trace::begin(Interpreter::Jvp);
    let result = function(&trace.dual(primal.clone(), Some(tangent.clone())));
    let (value, tangent) = or_panic(trace.undual(&result));
    drop(trace);
    tangent.unwrap_or_else(|| create::zeros_like(&value))
}

/// Returns the first operand, with the tangent of the second one. So the equations of the second operand are dead code unless a
/// derivative needs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct WithTangent;

/// Returns `value`, with the derivatives of `equal`, which has the same elements.
#[track_caller]
pub(crate) fn with_tangent_of(value: &Tensor, equal: &Tensor) -> Result<Tensor, TensorError> {
    bind_one(&WithTangent, &[value, equal])
}

impl Primitive for WithTangent {
    fn name(&self) -> &'static str {
        "with_tangent"
    }

    fn abstract_evaluation(&self, operands: &[&AbstractArray]) -> AbstractResults {
        same_info(self.name(), operands)?;
        Ok(one(operands[0].clone()))
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let [value, _] = take(operands);
        let shape = value.info.shape.clone();
        one(Array::reshaped(value, shape))
    }

    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> WithTangents {
        let value = or_panic(with_tangent_of(&primals[0], &primals[1]));
        (one(value), one(tangents[1].clone()))
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], batch: &BatchAxis) -> Batched {
        let aligned = align_batch(operands, axes, batch.size);
        let value = with_tangent_of(&aligned[0], &aligned[1]);
        (one(or_panic(value)), one(Some(aligned_axis(axes))))
    }

    fn lower(&self, _: &mut Block<'_>, operands: &[Value], _: &[&AbstractArray]) -> Lowered {
        Ok(one(operands[0].clone()))
    }

    fn accepts_narrow(&self) -> bool {
        true
    }
}
