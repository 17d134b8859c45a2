//! Concatenation of tensors.

use pytree_kernels::base::shape::{PerAxis, without_axes};
use pytree_kernels::loops::concatenate;
use smallvec::SmallVec;

use crate::primitives::create::or_zeros;
use crate::primitives::elementwise::{align_batch, aligned_axis};
use crate::primitives::prelude::*;
use crate::primitives::shape::batched_axis;
use crate::primitives::slice::part::slice;

/// Concatenates tensors along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Concatenate {
    pub(crate) axis: usize,
}
/// Returns the tensors concatenated along an axis.
#[track_caller]
pub(crate) fn concatenate(operands: &[&Tensor], axis: usize) -> Result<Tensor, TensorError> {
    bind_one(&Concatenate { axis }, operands)
}
impl Primitive for Concatenate {
    fn name(&self) -> &'static str {
        "concatenate"
    }

    fn abstract_evaluation(&self, operands: &[&AbstractArray]) -> AbstractResults {
        let Some(&first) = operands.first() else {
            return Err(TensorError::shape(
                "concatenate",
                operands,
                "there are no tensors",
                "pass at least one tensor",
            ));
        };
        if self.axis >= first.rank() {
            return Err(TensorError::axis("concatenate", first, self.axis));
        }
        if operands.iter().any(|operand| operand.dtype != first.dtype) {
            return Err(TensorError::dtype(
                "concatenate",
                operands,
                "the same element type in all tensors",
            ));
        }
        let others = |operand: &AbstractArray| without_axes(&operand.shape, &[self.axis]);
        if operands
            .iter()
            .any(|operand| operand.rank() != first.rank() || others(operand) != others(first))
        {
            let problem = format!("the shapes differ outside of axis {}", self.axis);
            return Err(TensorError::shape(
                "concatenate",
                operands,
                problem,
                "give all other axes equal lengths, or choose another axis",
            ));
        }
        let mut shape = first.shape.clone();
        shape[self.axis] = operands.iter().fold(0, |sum: usize, operand| {
            sum.saturating_add(operand.shape[self.axis])
        });
        Ok(one(AbstractArray {
            dtype: first.dtype,
            shape,
        }))
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        one(concatenate::evaluate(&operands, self.axis))
    }

    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> WithTangents {
        let joined =
            |parts: &[Tensor]| or_panic(concatenate(&parts.iter().collect::<Vec<_>>(), self.axis));
        let tangent = tangents.iter().any(Option::is_some).then(|| {
            let part = |(primal, tangent): (&Tensor, &Option<Tensor>)| {
                or_zeros(tangent.as_ref(), primal.info())
            };
            joined(&primals.iter().zip(tangents).map(part).collect::<Vec<_>>())
        });
        (one(joined(primals)), one(tangent))
    }

    fn transpose(&self, cotangents: &[Option<Tensor>], operands: &[Linear]) -> Cotangents {
        let Some(cotangent) = &cotangents[0] else {
            return operands.iter().map(|_| None).collect();
        };
        let stride: PerAxis = smallvec![1; cotangent.rank()];
        let mut start: PerAxis = smallvec![0; cotangent.rank()];
        let mut limit = PerAxis::from_slice(cotangent.shape());
        let mut parts = SmallVec::new();
        for operand in operands {
            limit[self.axis] = start[self.axis] + operand.info().shape[self.axis];
            parts.push(
                operand
                    .is_unknown()
                    .then(|| or_panic(slice(cotangent, &start, &limit, &stride))),
            );
            start[self.axis] = limit[self.axis];
        }
        parts
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], batch: &BatchAxis) -> Batched {
        let size = batch.size;
        let aligned = align_batch(operands, axes, size);
        let batch = aligned_axis(axes);
        let parts: Vec<&Tensor> = aligned.iter().collect();
        (
            one(or_panic(concatenate(
                &parts,
                batched_axis(self.axis, batch),
            ))),
            one(Some(batch)),
        )
    }

    fn lower(&self, block: &mut Block<'_>, operands: &[Value], _: &Infos<'_>) -> Lowered {
        Ok(one(block.concatenated(operands, self.axis)))
    }

    fn accepts_narrow(&self) -> bool {
        true
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dimension={}", self.axis)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::shape::tests::rule_checks::{
        check_batching, check_tangent, check_transpose, noise,
    };

    #[test]
    fn concatenate_error_names_differing_shapes() {
        let error = concatenate(&[&noise(&[2, 3], 1), &noise(&[2, 4], 2)], 0)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("f64[2,3] and f64[2,4]: the shapes differ outside of axis 0"),
            "{error}"
        );
        assert!(concatenate(&[], 0).is_err());
        let y = concatenate(
            &[&noise(&[2, 0], 1), &noise(&[2, 3], 2), &noise(&[2, 1], 3)],
            1,
        )
        .unwrap();
        assert_eq!(y.shape(), [2, 4]);
    }

    #[test]
    fn rules_of_concatenation_agree_with_evaluation() {
        let concatenate = Concatenate { axis: 1 };
        let operands = [noise(&[2, 3], 1), noise(&[2, 1], 2), noise(&[2, 2], 3)];
        (0..3).for_each(|operand| check_transpose(&concatenate, &operands, operand));
        check_tangent(&concatenate, &operands);
        check_batching(
            &concatenate,
            &[noise(&[5, 2, 3], 1), noise(&[5, 2, 1], 2)],
            &[Some(0), Some(0)],
        );
        check_batching(
            &concatenate,
            &[noise(&[2, 3, 5], 1), noise(&[2, 1, 5], 2)],
            &[Some(2), Some(2)],
        );
        check_batching(
            &concatenate,
            &[noise(&[2, 5, 3], 1), noise(&[2, 1], 2)],
            &[Some(1), None],
        );
    }
}
