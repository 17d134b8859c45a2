//! Tensor products, which multiply two tensors and sum over pairs of axes. Other pairs of axes may be batch axes.

use std::any::Any;

use pytree_base::bug::expect_some;
use pytree_kernels::base::shape::{AxisList, sorting_permutation};
use pytree_kernels::loops::dot::slices::ProductElement;
use pytree_kernels::loops::dot::{DotGeneral, Side};

use crate::base::nested::TensorElement;
use crate::primitives::elementwise::sum_of;
use crate::primitives::prelude::*;
use crate::primitives::shape::{batched_axis, transpose};
use crate::tensor::primitive::Division;

/// An element type that has kernels of matrix products: `f32` or `f64`.
pub trait MatrixElement: TensorElement + ProductElement {}

impl MatrixElement for f32 {}
impl MatrixElement for f64 {}

/// Returns the primitive as a product, or `None` if it is another primitive.
pub(crate) fn product_of(primitive: &dyn Primitive) -> Option<&DotGeneral> {
    let primitive: &dyn Any = primitive;
    primitive.downcast_ref()
}

/// Applies [`DotGeneral`] to two tensors.
#[track_caller]
pub(crate) fn dot_general(
    left: &Tensor,
    right: &Tensor,
    contract: (&[usize], &[usize]),
    batch: (&[usize], &[usize]),
) -> Result<Tensor, TensorError> {
    let pair = |(left, right): (&[usize], &[usize])| {
        (AxisList::from_slice(left), AxisList::from_slice(right))
    };
    bind_one(
        &DotGeneral {
            contract: pair(contract),
            batch: pair(batch),
        },
        &[left, right],
    )
}

/// Returns the new indices of the axes `axes` after a batch axis is inserted at position `batch`.
fn shifted(axes: &[usize], batch: Option<usize>) -> AxisList {
    axes.iter()
        .map(|&axis| batch.map_or(axis, |batch| batched_axis(axis, batch)))
        .collect()
}

/// Computes the cotangent of the operand `own` from the cotangent of the result and from `known`, the value of the
/// other operand. `other` has the axes of the other operand.
fn cotangent_of(own: &Side<'_>, cotangent: &Tensor, other: &Side<'_>, known: &Tensor) -> Tensor {
    let batch: AxisList = (0..own.batch.len()).collect();
    // The product below has the contracted axes in the order of the other operand.
    let contracted: AxisList = sorting_permutation(other.contract)
        .iter()
        .map(|&position| own.contract[position])
        .collect();
    let axes = |first: &[usize], second: &[usize]| -> AxisList {
        [own.batch, first, second].concat().into_iter().collect()
    };
    let cotangent_first = axes(&own.free, &contracted);
    let known_first = axes(&contracted, &own.free);
    // Choose the order of the two factors so that no transpose is needed afterwards.
    let (product, axes) = if known_first.is_sorted() {
        (
            dot_general(
                known,
                cotangent,
                (&other.free, &other.kept),
                (other.batch, &batch),
            ),
            known_first,
        )
    } else {
        (
            dot_general(
                cotangent,
                known,
                (&other.kept, &other.free),
                (&batch, other.batch),
            ),
            cotangent_first,
        )
    };
    or_panic(transpose(&or_panic(product), &sorting_permutation(&axes)))
}

impl Primitive for DotGeneral {
    fn name(&self) -> &'static str {
        "dot_general"
    }

    fn abstract_evaluation(&self, operands: &[&AbstractArray]) -> AbstractResults {
        let (left, right) = (operands[0], operands[1]);
        if left.dtype != right.dtype || left.dtype == DType::Bool {
            return Err(TensorError::dtype(
                "multiply",
                operands,
                "numbers, with the same element type in both tensors",
            ));
        }
        for (what, (left_axes, right_axes)) in
            [("contracted", &self.contract), ("batch", &self.batch)]
        {
            if left_axes.len() != right_axes.len() {
                return Err(TensorError::shape(
                    "multiply",
                    operands,
                    format!("the {what} axes {left_axes:?} and {right_axes:?} differ in number"),
                    "name the same number of axes for both tensors",
                ));
            }
            for (&l, &r) in left_axes.iter().zip(right_axes) {
                let lengths = (left.shape.get(l), right.shape.get(r));
                if lengths.0.is_none() || lengths.0 != lengths.1 {
                    return Err(TensorError::shape(
                        "multiply",
                        operands,
                        format!("the {what} axes {l} and {r} differ in length"),
                        "transpose or reshape one of them",
                    ));
                }
            }
        }
        Ok(one(AbstractArray {
            dtype: left.dtype,
            shape: self.result_shape(&left.shape, &right.shape),
        }))
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let [left, right] = take(operands);
        one(self.evaluate(left, right))
    }

    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> WithTangents {
        let product = |left: &Tensor, right: &Tensor| or_panic(bind_one(self, &[left, right]));
        let left = tangents[0]
            .as_ref()
            .map(|tangent| product(tangent, &primals[1]));
        let right = tangents[1]
            .as_ref()
            .map(|tangent| product(&primals[0], tangent));
        (
            one(product(&primals[0], &primals[1])),
            one(sum_of(left, right)),
        )
    }

    fn transpose(&self, cotangents: &[Option<Tensor>], operands: &[Linear]) -> Cotangents {
        let Some(cotangent) = &cotangents[0] else {
            return smallvec![None, None];
        };
        let (left, right) = self.sides(operands[0].info().rank(), operands[1].info().rank());
        smallvec![
            operands[0].is_unknown().then(|| cotangent_of(
                &left,
                cotangent,
                &right,
                operands[1].known()
            )),
            operands[1].is_unknown().then(|| cotangent_of(
                &right,
                cotangent,
                &left,
                operands[0].known()
            ))
        ]
    }

    /// Batches the product. If both operands have a batch axis, these two axes become one more pair of batch axes of
    /// the product. If only one operand has a batch axis, this axis becomes one more free axis.
    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], _: &BatchAxis) -> Batched {
        let shifted = |(left, right): &(AxisList, AxisList)| {
            (shifted(left, axes[0]), shifted(right, axes[1]))
        };
        let mut product = Self {
            contract: shifted(&self.contract),
            batch: shifted(&self.batch),
        };
        if let (Some(left), Some(right)) = (axes[0], axes[1]) {
            product.batch.0.insert(0, left);
            product.batch.1.insert(0, right);
        }
        let (left, right) = product.sides(operands[0].rank(), operands[1].rank());
        let place = |side: &Side<'_>, axis: usize| {
            let position = side.free.iter().position(|&free| free == axis);
            Some(
                side.kept[expect_some(
                    position,
                    "the batch axis to be a free axis, because only one operand has it",
                )],
            )
        };
        let result_axis = match (axes[0], axes[1]) {
            (Some(_), Some(_)) => Some(0),
            (Some(axis), None) => place(&left, axis),
            (None, Some(axis)) => place(&right, axis),
            (None, None) => None,
        };
        (
            one(or_panic(bind_one(&product, &[&operands[0], &operands[1]]))),
            one(result_axis),
        )
    }

    fn lower(&self, block: &mut Block<'_>, operands: &[Value], results: &Infos<'_>) -> Lowered {
        let ((contract_left, contract_right), (batch_left, batch_right)) =
            (&self.contract, &self.batch);
        // Without the highest precision, a TPU would round f32 to bf16.
        let attributes = format_args!(
            "dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = {batch_left:?}, rhs_batching_dimensions = {batch_right:?}, lhs_contracting_dimensions = {contract_left:?}, rhs_contracting_dimensions = {contract_right:?}>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]"
        );
        let operands = [&operands[0], &operands[1]];
        let result = results[0].clone();
        Ok(one(block.operation(
            "stablehlo.dot_general",
            &operands,
            attributes,
            result,
        )))
    }

    fn accepts_halves(&self) -> bool {
        true
    }

    fn multiplies_narrow_floats(&self) -> bool {
        true
    }

    fn division(&self, operands: &[&AbstractArray]) -> Option<Division> {
        let (left, right) = self.sides(operands[0].rank(), operands[1].rank());
        let longest = |side: &Side<'_>, operand: &AbstractArray| {
            let axes = side.free.iter().zip(&side.kept);
            let longest = axes.max_by_key(|&(&axis, _)| operand.shape[axis]);
            longest.map(|(&axis, &kept)| (operand.shape[axis], axis, kept))
        };
        let (rows, columns) = (longest(&left, operands[0]), longest(&right, operands[1]));
        let (_, axis, result) = rows.max(columns)?;
        let is_left = rows.max(columns) == rows;
        let operands = smallvec![is_left.then_some(axis), (!is_left).then_some(axis)];
        Some(Division { operands, result })
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((contract_left, contract_right), (batch_left, batch_right)) =
            (&self.contract, &self.batch);
        write!(
            f,
            "dimension_numbers=(({contract_left:?}, {contract_right:?}), ({batch_left:?}, {batch_right:?}))"
        )
    }
}

#[cfg(test)]
mod tests;
