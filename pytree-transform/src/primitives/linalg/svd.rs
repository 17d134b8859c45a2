//! The singular value decomposition.

use std::fmt;

use smallvec::smallvec;

use super::matrices::{
    adjoint, check_real, diagonal, elements_mut, identity, matrix_lengths, product, with_axis,
    with_lengths, with_real,
};
use super::singular;
use crate::base::array::Array;
use crate::base::dtype::AbstractArray;
use crate::base::error::{TensorError, or_panic};
use crate::primitives::convert::convert;
use crate::primitives::elementwise::compare_with;
use crate::primitives::shape::move_axis;
use crate::tensor::Tensor;
use crate::tensor::elementwise::Comparison;
use crate::tensor::primitive::{
    AbstractResults, BatchAxis, Batched, Cotangents, Linear, Lowered, Operands, Outputs, Primitive,
    WithTangents, alone, not_linear, take,
};
use crate::tensor::stablehlo::{Block, Value};
use crate::tensor::trace::bind;

/// Returns the matrices of `A = U diag(s) Vᵀ`: for `A` of the shape `[m, n]` and k = min(m, n), `U: [m, k]`, `s: [k]` in
/// descending order, and `Vᵀ: [k, n]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Svd;

/// Applies [`Svd`] to a tensor. Returns `U`, `s` and `Vᵀ`.
#[track_caller]
pub(crate) fn svd(operand: &Tensor) -> Result<[Tensor; 3], TensorError> {
    let results = bind(&Svd, &[operand])?;
    Ok([0, 1, 2].map(|position| results[position].clone()))
}

const OPERATION: &str = "take the singular values of";

/// Returns the tangents of `U`, `s` and `Vᵀ` (Giles, "Collected matrix derivative results for forward and reverse mode
/// algorithmic differentiation", 2008, section 3.2; the form of `jax.lax.linalg.svd`). Equal singular values give
/// infinities and NaN.
fn tangents_of(operand: &Tensor, [u, s, v_t]: [&Tensor; 3], tangent: &Tensor) -> [Tensor; 3] {
    let rank = operand.rank();
    let (m, n) = (operand.shape()[rank - 2], operand.shape()[rank - 1]);
    let (u_t, v) = (adjoint(u), adjoint(v_t));
    let (row, column) = (with_axis(s, rank - 2), with_axis(s, rank - 1));
    let middle = product(&product(&u_t, tangent), &v);
    let identity = identity(&middle);
    let differences = (&row + &column) * (&row - &column);
    let quotients = 1.0 / (differences + &identity) - &identity;
    let by_row = &row * &middle;
    let by_column = &column * &middle;
    // The reciprocal of a zero is 0 here.
    let zeros = or_panic(convert(&compare_with(Comparison::Eq, s, 0.0), s.dtype()));
    let reciprocals = with_axis(&(1.0 / (s + &zeros) - &zeros), rank - 2) * &identity;
    let on_diagonal = (&middle - adjoint(&middle)) * 0.5 * reciprocals;
    let inner = &quotients * (&by_row + adjoint(&by_row)) + on_diagonal;
    let mut of_u = product(u, &inner);
    let mut of_v = product(&v, &(&quotients * (&by_column + adjoint(&by_column))));
    if m > n {
        let moved = product(tangent, &v);
        let outside = &moved - product(u, &product(&u_t, &moved));
        of_u += outside / &row;
    }
    if n > m {
        let moved = product(&adjoint(tangent), u);
        let outside = &moved - product(&v, &product(v_t, &moved));
        of_v += outside / &row;
    }
    [of_u, diagonal(&middle), adjoint(&of_v)]
}

impl Primitive for Svd {
    fn name(&self) -> &'static str {
        "svd"
    }

    fn abstract_evaluation(&self, operands: &[&AbstractArray]) -> AbstractResults {
        check_real(OPERATION, operands)?;
        let [m, n] = matrix_lengths(OPERATION, operands[0])?;
        let k = m.min(n);
        Ok(smallvec![
            with_lengths(operands[0], &[m, k]),
            with_lengths(operands[0], &[k]),
            with_lengths(operands[0], &[k, n])
        ])
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let [operand] = take(operands);
        let rank = operand.shape().len();
        let (m, n) = (operand.shape()[rank - 2], operand.shape()[rank - 1]);
        let k = m.min(n);
        let zeros = |lengths: &[usize]| Array::zeros(&with_lengths(&operand.info, lengths));
        let (mut u, mut s, mut v_t) = (zeros(&[m, k]), zeros(&[k]), zeros(&[k, n]));
        if k > 0 {
            with_real!(operand.dtype(), T => {
                let matrices = operand.elements::<T>().chunks_exact(m * n);
                let u = elements_mut::<T>(&mut u).chunks_exact_mut(m * k);
                let s = elements_mut::<T>(&mut s).chunks_exact_mut(k);
                let v_t = elements_mut::<T>(&mut v_t).chunks_exact_mut(k * n);
                for (((matrix, u), s), v_t) in matrices.zip(u).zip(s).zip(v_t) {
                    singular::svd(matrix, [m, n], u, s, v_t);
                }
            });
        }
        smallvec![u, s, v_t]
    }

    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> WithTangents {
        let [u, s, v_t] = or_panic(svd(&primals[0]));
        let tangents = match &tangents[0] {
            Some(tangent) => tangents_of(&primals[0], [&u, &s, &v_t], tangent).map(Some),
            None => [None, None, None],
        };
        (smallvec![u, s, v_t], tangents.into_iter().collect())
    }

    fn transpose(&self, _: &[Option<Tensor>], _: &[Linear]) -> Cotangents {
        not_linear(self)
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], _: &BatchAxis) -> Batched {
        let Some(axis) = axes[0] else {
            return alone(self, operands);
        };
        let operand = or_panic(move_axis(&operands[0], axis, 0));
        let results = or_panic(bind(self, &[&operand]));
        (results, smallvec![Some(0), Some(0), Some(0)])
    }

    fn lower(&self, block: &mut Block<'_>, operands: &[Value], _: &[&AbstractArray]) -> Lowered {
        Err(block.refused(
            operands,
            "StableHLO has no operation for singular values",
            "compute the decomposition on the host, outside of the function that is compiled for a device",
        ))
    }

    fn write_parameters(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}
