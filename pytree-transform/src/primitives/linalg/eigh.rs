//! Eigenvalues and eigenvectors of symmetric matrices.

use std::fmt;

use smallvec::smallvec;

use super::matrices::{
    adjoint, check_real, diagonal, elements_mut, identity, product, square_length, with_axis,
    with_lengths, with_real,
};
use super::symmetric;
use crate::base::array::Array;
use crate::base::dtype::AbstractArray;
use crate::base::error::{TensorError, or_panic};
use crate::primitives::shape::move_axis;
use crate::tensor::Tensor;
use crate::tensor::primitive::{
    AbstractResults, BatchAxis, Batched, Cotangents, Linear, Lowered, Operands, Outputs, Primitive,
    WithTangents, alone, not_linear, take,
};
use crate::tensor::stablehlo::{Block, Value};
use crate::tensor::trace::bind;

/// Returns the eigenvalues of symmetric matrices `[…, n, n]` in ascending order, `[…, n]`, and their eigenvectors as
/// columns, `[…, n, n]`. Reads only the lower triangle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Eigh;

/// Applies [`Eigh`] to a tensor.
#[track_caller]
pub(crate) fn eigh(operand: &Tensor) -> Result<(Tensor, Tensor), TensorError> {
    let results = bind(&Eigh, &[operand])?;
    Ok((results[0].clone(), results[1].clone()))
}

const OPERATION: &str = "take the eigenvalues of";

impl Primitive for Eigh {
    fn name(&self) -> &'static str {
        "eigh"
    }

    fn abstract_evaluation(&self, operands: &[&AbstractArray]) -> AbstractResults {
        check_real(OPERATION, operands)?;
        let size = square_length(OPERATION, operands[0])?;
        Ok(smallvec![
            with_lengths(operands[0], &[size]),
            operands[0].clone()
        ])
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let [operand] = take(operands);
        let size = operand.shape()[operand.shape().len() - 1];
        let mut values = Array::zeros(&with_lengths(&operand.info, &[size]));
        let mut vectors = Array::zeros(&operand.info);
        if size > 0 {
            with_real!(operand.dtype(), T => {
                let matrices = operand.elements::<T>().chunks_exact(size * size);
                let values = elements_mut::<T>(&mut values).chunks_exact_mut(size);
                let vectors = elements_mut::<T>(&mut vectors).chunks_exact_mut(size * size);
                for ((matrix, values), vectors) in matrices.zip(values).zip(vectors) {
                    symmetric::eigh(matrix, size, values, vectors);
                }
            });
        }
        smallvec![values, vectors]
    }

    /// With `M = Vᵀ A' V`: `w' = diag(M)` and `V' = V (F ∘ M)`, where `F` is 1 / (wⱼ - wᵢ) outside of the diagonal and 0 on
    /// it (Giles, "Collected matrix derivative results for forward and reverse mode algorithmic differentiation", 2008,
    /// section 3.1). Equal eigenvalues give infinities and NaN.
    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> WithTangents {
        let (values, vectors) = or_panic(eigh(&primals[0]));
        let (of_values, of_vectors) = tangents[0]
            .as_ref()
            .map(|tangent| {
                let middle = product(&product(&adjoint(&vectors), tangent), &vectors);
                let axis = values.rank();
                let differences = with_axis(&values, axis - 1) - with_axis(&values, axis);
                let identity = identity(&vectors);
                let quotients = 1.0 / (differences + &identity) - &identity;
                let of_vectors = product(&vectors, &(quotients * &middle));
                (diagonal(&middle), of_vectors)
            })
            .unzip();
        (smallvec![values, vectors], smallvec![of_values, of_vectors])
    }

    fn transpose(&self, _: &[Option<Tensor>], _: &[Linear]) -> Cotangents {
        not_linear(self)
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], _: &BatchAxis) -> Batched {
        let Some(axis) = axes[0] else {
            return alone(self, operands);
        };
        let operand = or_panic(move_axis(&operands[0], axis, 0));
        (
            or_panic(bind(self, &[&operand])),
            smallvec![Some(0), Some(0)],
        )
    }

    fn lower(&self, block: &mut Block<'_>, operands: &[Value], _: &[&AbstractArray]) -> Lowered {
        Err(block.refused(
            operands,
            "StableHLO has no operation for eigenvalues",
            "compute the eigenvalues on the host, outside of the function that is compiled for a device",
        ))
    }

    fn write_parameters(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}
