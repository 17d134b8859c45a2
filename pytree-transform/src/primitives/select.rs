//! Elementwise selection between two tensors.

use pytree_kernels::loops::elementwise::{self, Elementwise};

use crate::primitives::create::{self, broadcast_to, known_scalar};
use crate::primitives::elementwise::{align_batch, aligned_axis};
use crate::primitives::prelude::*;
use crate::tensor::trace::bind_repeating;

/// Computes `if condition { on_true } else { on_false }` elementwise. All three operands have the same shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Select;

/// Selects between two tensors of the shape of the condition, one of which may also be a number.
#[track_caller]
pub(crate) fn select(
    condition: &Tensor,
    on_true: &Tensor,
    on_false: &Tensor,
) -> Result<Tensor, TensorError> {
    let shape = condition.shape();
    if on_true.shape() == shape && on_false.shape() == shape {
        return bind_one(&Select, &[condition, on_true, on_false]);
    }
    if let Some(selected) = bind_repeating(&Select, &[condition, on_true, on_false])? {
        return Ok(selected);
    }
    let fitted = |side: &Tensor| match known_scalar(side) {
        Some(number) => create::full(side.dtype(), shape, number),
        None => broadcast_to(side, shape),
    };
    bind_one(&Select, &[condition, &fitted(on_true)?, &fitted(on_false)?])
}

/// Selects between a tensor and zeros, in place of the tensor that is `None`.
#[track_caller]
fn select_or_zero(
    condition: &Tensor,
    on_true: Option<&Tensor>,
    on_false: Option<&Tensor>,
) -> Option<Tensor> {
    let zero = Tensor::constant(on_true.or(on_false)?.dtype(), 0.0);
    let [on_true, on_false] = [on_true, on_false].map(|side| side.unwrap_or(&zero));
    Some(or_panic(select(condition, on_true, on_false)))
}

impl Primitive for Select {
    fn name(&self) -> &'static str {
        "select"
    }

    fn abstract_evaluation(&self, operands: &[&AbstractArray]) -> AbstractResults {
        if operands[0].dtype != DType::Bool {
            return Err(TensorError::dtype(
                "select",
                operands,
                "bool as the condition; compare the condition with a number first, for instance `.not_equal(0)`",
            ));
        }
        if operands[1].dtype != operands[2].dtype {
            return Err(TensorError::dtype(
                "select",
                operands,
                "the same element type in both tensors that `select` chooses from",
            ));
        }
        if operands[1].shape != operands[2].shape || operands[0].shape != operands[1].shape {
            return Err(TensorError::shape(
                "select",
                operands,
                "the shapes differ",
                "broadcast them first",
            ));
        }
        Ok(one(operands[1].clone()))
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let [condition, on_true, on_false] = take(operands);
        one(elementwise::select(condition, on_true, on_false))
    }

    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> WithTangents {
        let result = or_panic(select(&primals[0], &primals[1], &primals[2]));
        let tangent = select_or_zero(&primals[0], tangents[1].as_ref(), tangents[2].as_ref());
        (one(result), one(tangent))
    }

    fn transpose(&self, cotangents: &[Option<Tensor>], operands: &[Linear]) -> Cotangents {
        let Some(cotangent) = &cotangents[0] else {
            return smallvec![None, None, None];
        };
        let condition = operands[0].known();
        smallvec![
            None,
            select_or_zero(
                condition,
                Some(cotangent).filter(|_| operands[1].is_unknown()),
                None
            ),
            select_or_zero(
                condition,
                None,
                Some(cotangent).filter(|_| operands[2].is_unknown())
            ),
        ]
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], batch: &BatchAxis) -> Batched {
        let size = batch.size;
        let aligned = align_batch(operands, axes, size);
        (
            one(or_panic(select(&aligned[0], &aligned[1], &aligned[2]))),
            one(Some(aligned_axis(axes))),
        )
    }

    fn lower(&self, block: &mut Block<'_>, operands: &[Value], _: &Infos<'_>) -> Lowered {
        Ok(one(block.selection(
            &operands[0],
            &operands[1],
            &operands[2],
        )))
    }

    fn accepts_narrow(&self) -> bool {
        true
    }

    fn elementwise(&self) -> Option<Elementwise> {
        Some(Elementwise::Select)
    }
}
