//! The QR decomposition.

use std::fmt;

use smallvec::smallvec;

use super::lowering;
use super::matrices::{
    adjoint, check_real, elements_mut, matrix_lengths, part, product, with_lengths, with_real,
};
use super::reflections;
use super::triangular_solve::{Side, Triangle, TriangularSolve};
use crate::base::array::Array;
use crate::base::dtype::{AbstractArray, DType};
use crate::base::error::{TensorError, or_panic};
use crate::primitives::create;
use crate::primitives::elementwise::compare_with;
use crate::primitives::select::select;
use crate::primitives::shape::move_axis;
use crate::primitives::slice::{concatenate, slice};
use crate::tensor::Tensor;
use crate::tensor::elementwise::Comparison;
use crate::tensor::primitive::{
    AbstractResults, BatchAxis, Batched, Cotangents, Linear, Lowered, Operands, Outputs, Primitive,
    WithTangents, alone, not_linear, take,
};
use crate::tensor::stablehlo::{Block, Value};
use crate::tensor::trace::bind;

/// Returns the matrices of `A = Q R`. For `A` of the shape `[m, n]` and k = min(m, n), the columns of `Q: [m, k]` are
/// orthonormal, and `R: [k, n]` is zero below the diagonal. The signs are those of LAPACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Qr;

/// Applies [`Qr`] to a tensor.
#[track_caller]
pub(crate) fn qr(operand: &Tensor) -> Result<(Tensor, Tensor), TensorError> {
    let results = bind(&Qr, &[operand])?;
    Ok((results[0].clone(), results[1].clone()))
}

const OPERATION: &str = "factorize";

/// Returns the columns from `start` up to, but not including, `end`.
fn columns(operand: &Tensor, start: usize, end: usize) -> Tensor {
    let rank = operand.rank();
    let mut starts = vec![0; rank];
    let mut limits = operand.shape().to_vec();
    (starts[rank - 1], limits[rank - 1]) = (start, end);
    or_panic(slice(operand, &starts, &limits, &vec![1; rank]))
}

/// Returns the tangents of `Q` and `R` for matrices with at least as many rows as columns (Walter and Lehmann,
/// "Algorithmic differentiation of linear algebra functions with application in optimum experimental design", 2010,
/// section 3; the form of <https://j-towns.github.io/papers/qr-derivative.pdf>).
///
/// With the skew matrix `Ω` that has the same elements below the diagonal as `Qᵀ A' R⁻¹`: `R' = Qᵀ A' - Ω R` and
/// `Q' = Q Ω + (A' - Q Qᵀ A') R⁻¹`. The second term of `Q'` is zero for square matrices. `Ω` does not depend on the last
/// pivot, so square matrices with dependent columns have derivatives if all columns but the last are independent.
fn tall_tangents(q: &Tensor, r: &Tensor, tangent: &Tensor) -> (Tensor, Tensor) {
    let rank = r.rank();
    let divide = TriangularSolve::new(Triangle::Upper).on_side(Side::Right);
    let moved = product(&adjoint(q), tangent);
    let below = part(
        &divide.apply(&with_last_pivot_of_one(r), &moved),
        Comparison::Lt,
    );
    let skew = &below - adjoint(&below);
    let mut of_q = product(q, &skew);
    if q.shape()[rank - 2] > r.shape()[rank - 1] {
        of_q += divide.apply(r, &(tangent - product(q, &moved)));
    }
    let of_r = part(&(moved - product(&skew, r)), Comparison::Ge);
    (of_q, of_r)
}

/// Returns square matrices with 1 as their last element.
fn with_last_pivot_of_one(r: &Tensor) -> Tensor {
    let rank = r.rank();
    let last = r.shape()[rank - 1].saturating_sub(1) as f64;
    let is_last = |axis| {
        let places = or_panic(create::iota(DType::I32, r.shape(), axis));
        compare_with(Comparison::Eq, &places, last)
    };
    let none = or_panic(create::full(DType::Bool, r.shape(), 0.0));
    let is_last = or_panic(select(&is_last(rank - 2), &is_last(rank - 1), &none));
    or_panic(select(&is_last, &create::ones_like(r), r))
}

fn tangents_of(operand: &Tensor, q: &Tensor, r: &Tensor, tangent: &Tensor) -> (Tensor, Tensor) {
    let rank = operand.rank();
    let (m, n) = (operand.shape()[rank - 2], operand.shape()[rank - 1]);
    if m >= n {
        return tall_tangents(q, r, tangent);
    }
    // `A = Q [R₁ R₂]`, where `R₁` is square: `Q` and `R₁` depend on the first columns, and `R₂ = Qᵀ A₂`.
    let (of_q, of_first) = tall_tangents(q, &columns(r, 0, m), &columns(tangent, 0, m));
    let of_second = product(&adjoint(&of_q), &columns(operand, m, n))
        + product(&adjoint(q), &columns(tangent, m, n));
    let of_r = or_panic(concatenate(&[&of_first, &of_second], rank - 1));
    (of_q, of_r)
}

impl Primitive for Qr {
    fn name(&self) -> &'static str {
        "qr"
    }

    fn abstract_evaluation(&self, operands: &[&AbstractArray]) -> AbstractResults {
        check_real(OPERATION, operands)?;
        let [m, n] = matrix_lengths(OPERATION, operands[0])?;
        let k = m.min(n);
        Ok(smallvec![
            with_lengths(operands[0], &[m, k]),
            with_lengths(operands[0], &[k, n])
        ])
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let [operand] = take(operands);
        let rank = operand.shape().len();
        let (m, n) = (operand.shape()[rank - 2], operand.shape()[rank - 1]);
        let k = m.min(n);
        let infos = [[m, k], [k, n]].map(|lengths| with_lengths(&operand.info, &lengths));
        let mut results = infos.map(|info| Array::zeros(&info));
        if k > 0 {
            with_real!(operand.dtype(), T => {
                let [q, r] = &mut results;
                let matrices = operand.elements::<T>().chunks_exact(m * n);
                let q = elements_mut::<T>(q).chunks_exact_mut(m * k);
                let r = elements_mut::<T>(r).chunks_exact_mut(k * n);
                for ((matrix, q), r) in matrices.zip(q).zip(r) {
                    reflections::qr(matrix, [m, n], q, r);
                }
            });
        }
        results.into_iter().collect()
    }

    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> WithTangents {
        let (q, r) = or_panic(qr(&primals[0]));
        let (of_q, of_r) = tangents[0]
            .as_ref()
            .map(|tangent| tangents_of(&primals[0], &q, &r, tangent))
            .unzip();
        (smallvec![q, r], smallvec![of_q, of_r])
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

    fn lower(
        &self,
        block: &mut Block<'_>,
        operands: &[Value],
        results: &[&AbstractArray],
    ) -> Lowered {
        lowering::qr(block, &operands[0], results).map(Outputs::from_vec)
    }

    fn write_parameters(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}
