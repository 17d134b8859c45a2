//! Comparisons of two tensors.

use pytree_kernels::loops::elementwise::{self, Comparison, Elementwise};

use crate::primitives::elementwise::broadcasting::{
    align_batch, aligned_axis, bind_broadcast, same_info,
};
use crate::primitives::elementwise::operand::Operand;
use crate::primitives::prelude::*;

/// Compares two tensors, which are broadcast to their common shape.
#[track_caller]
pub(crate) fn compare(
    comparison: Comparison,
    left: &Tensor,
    right: &Tensor,
) -> Result<Tensor, TensorError> {
    bind_broadcast(&comparison, left, right)
}

/// Compares a tensor with a number, for use in rules. The tensor's dtype must be able to hold the number.
#[track_caller]
pub(crate) fn compare_with(comparison: Comparison, left: &Tensor, number: f64) -> Tensor {
    let right = or_panic(number.beside(left));
    or_panic(compare(comparison, left, &right))
}

impl Primitive for Comparison {
    fn name(&self) -> &'static str {
        Elementwise::Compare(*self).name()
    }

    fn abstract_evaluation(&self, operands: &[&AbstractArray]) -> AbstractResults {
        same_info(self.name(), operands)?;
        Ok(one(AbstractArray::new(DType::Bool, &operands[0].shape)))
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let [left, right] = take(operands);
        one(elementwise::compare(*self, left, right))
    }

    fn jvp(&self, primals: &[Tensor], _: &[Option<Tensor>]) -> WithTangents {
        (
            one(or_panic(compare(*self, &primals[0], &primals[1]))),
            one(None),
        )
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], batch: &BatchAxis) -> Batched {
        let size = batch.size;
        let aligned = align_batch(operands, axes, size);
        (
            one(or_panic(compare(*self, &aligned[0], &aligned[1]))),
            one(Some(aligned_axis(axes))),
        )
    }

    fn lower(&self, block: &mut Block<'_>, operands: &[Value], _: &Infos<'_>) -> Lowered {
        let direction = match self {
            Self::Eq => "EQ",
            Self::Ne => "NE",
            Self::Lt => "LT",
            Self::Le => "LE",
            Self::Gt => "GT",
            Self::Ge => "GE",
        };
        Ok(one(block.comparison(direction, &operands[0], &operands[1])))
    }

    fn elementwise(&self) -> Option<Elementwise> {
        Some(Elementwise::Compare(*self))
    }
}
