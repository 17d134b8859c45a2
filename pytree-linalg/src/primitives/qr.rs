//! The QR decomposition.

use pytree_transform::extend::{Block, Examples, Primitive, Tangents, Value, apply, try_apply};
use pytree_transform::indexing::Index;
use pytree_transform::{AbstractArray, DType, Tensor, TensorError, ix};

use crate::kernels::memory::filled;
use crate::kernels::reflections::Reflections;
use crate::primitives::lowering;
use crate::primitives::matrices::{
    Infos, Lowered, MatrixPart, adjoint, batch_of_one, check_real, count, elements, lengths,
    matrix_lengths, part, product, shaped, with_lengths, with_real,
};
use crate::primitives::triangular_solve::{Side, Triangle, TriangularSolve};

/// Returns the matrices of `A = Q R`. For `A` of the shape `[m, n]` and k = min(m, n), the columns of `Q: [m, k]` are
/// orthonormal, and `R: [k, n]` is zero below the diagonal. The signs are those of LAPACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Qr;

/// Applies [`Qr`] to a tensor.
#[track_caller]
pub(crate) fn qr(operand: &Tensor) -> Result<(Tensor, Tensor), TensorError> {
    let results = try_apply(&Qr, &[operand])?;
    Ok((results[0].clone(), results[1].clone()))
}

const OPERATION: &str = "factorize";

/// Returns the columns from `start` up to, but not including, `end`.
fn columns(operand: &Tensor, start: usize, end: usize) -> Tensor {
    operand.index(ix![Index::Ellipsis, start..end])
}

/// Returns the tangents of `Q` and `R` for matrices with at least as many rows as columns (Walter and Lehmann,
/// "Algorithmic differentiation of linear algebra functions with application in optimum experimental design", 2010,
/// section 3; the form of <https://j-towns.github.io/papers/qr-derivative.pdf>).
///
/// With the skew matrix `Ω` that has the same elements below the diagonal as `Qᵀ A' R⁻¹`: `R' = Qᵀ A' - Ω R` and
/// `Q' = Q Ω + (A' - Q Qᵀ A') R⁻¹`. The second term of `Q'` is zero for square matrices. `Ω` does not depend on the last
/// pivot, so square matrices with dependent columns have derivatives if all columns but the last are independent.
fn tall_tangents(q: &Tensor, r: &Tensor, tangent: &Tensor) -> (Tensor, Tensor) {
    let divide = TriangularSolve::new(Triangle::Upper).on_side(Side::Right);
    let moved = product(&adjoint(q), tangent);
    let below = part(
        &divide.apply(&with_last_pivot_of_one(r), &moved),
        MatrixPart::BelowDiagonal,
    );
    let skew = &below - adjoint(&below);
    let mut of_q = product(q, &skew);
    if lengths(q)[0] > lengths(r)[1] {
        of_q += divide.apply(r, &(tangent - product(q, &moved)));
    }
    let of_r = part(&(moved - product(&skew, r)), MatrixPart::Upper);
    (of_q, of_r)
}

/// Returns square matrices with 1 as their last element.
fn with_last_pivot_of_one(r: &Tensor) -> Tensor {
    let last = count(lengths(r)[1]) - 1;
    let is_last = |axis| Tensor::iota(DType::I32, r.shape(), axis).equal(last);
    (is_last(-2) & is_last(-1)).select(Tensor::ones_like(r), r)
}

fn tangents_of(operand: &Tensor, q: &Tensor, r: &Tensor, tangent: &Tensor) -> (Tensor, Tensor) {
    let [m, n] = lengths(operand);
    if m >= n {
        return tall_tangents(q, r, tangent);
    }
    // `A = Q [R₁ R₂]`, where `R₁` is square: `Q` and `R₁` depend on the first columns, and `R₂ = Qᵀ A₂`.
    let (of_q, of_first) = tall_tangents(q, &columns(r, 0, m), &columns(tangent, 0, m));
    let of_second = product(&adjoint(&of_q), &columns(operand, m, n))
        + product(&adjoint(q), &columns(tangent, m, n));
    let of_r = Tensor::concatenate(&[of_first, of_second], -1);
    (of_q, of_r)
}

/// Returns the dtypes and shapes of the results for matrices of `m` rows and `n` columns.
fn infos_of(operand: &AbstractArray, [m, n]: [usize; 2]) -> [AbstractArray; 2] {
    let k = m.min(n);
    [[m, k], [k, n]].map(|of| with_lengths(operand, &of))
}

impl Primitive for Qr {
    fn name(&self) -> &'static str {
        "qr"
    }

    fn shape(&self, operands: &[&AbstractArray]) -> Result<Vec<AbstractArray>, TensorError> {
        check_real(OPERATION, operands)?;
        matrix_lengths(OPERATION, operands[0]).map(|lengths| infos_of(operands[0], lengths).into())
    }

    fn evaluate(&self, operands: &[Tensor]) -> Vec<Tensor> {
        let operand = &operands[0];
        let [m, n] = lengths(operand);
        let k = m.min(n);
        let infos = infos_of(operand.info(), [m, n]);
        with_real!(operand.dtype(), T => {
            let mut results = infos.each_ref().map(|info| filled(0.0, info.len()));
            if k > 0 {
                let [q, r] = &mut results;
                let matrices = elements::<T>(operand).chunks_exact(m * n);
                let q = q.chunks_exact_mut(m * k);
                let r = r.chunks_exact_mut(k * n);
                let mut reflections = Reflections::new([m, n]);
                for ((matrix, q), r) in matrices.zip(q).zip(r) {
                    reflections.compute::<T>(matrix, q, r);
                }
            }
            shaped(&infos, results)
        })
    }

    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> Tangents {
        let results = apply(self, &[&primals[0]]);
        let (q, r) = (results[0].clone(), results[1].clone());
        let (of_q, of_r) = tangents[0]
            .as_ref()
            .map(|tangent| tangents_of(&primals[0], &q, &r, tangent))
            .unzip();
        (results, vec![of_q, of_r])
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], _: usize) -> Examples {
        batch_of_one(self, operands, axes)
    }

    fn lower(&self, block: &mut Block<'_>, operands: &[Value], _: &Infos<'_>) -> Lowered {
        block.computed(operands, |operands| lowering::qr(&operands[0]))
    }
}
