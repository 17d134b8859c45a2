//! The singular value decomposition.

use pytree_transform::extend::{Block, Examples, Primitive, Tangents, Value, apply, try_apply};
use pytree_transform::{AbstractArray, Tensor, TensorError};

use crate::kernels::memory::filled;
use crate::kernels::spectra::Singular;
use crate::primitives::matrices::{
    Infos, Lowered, adjoint, batch_of_one, check_real, diagonal, elements, identity, lengths,
    matrix_lengths, not_converged, or_panic, product, shaped, with_lengths, with_real,
};

/// Returns the matrices of `A = U diag(s) Vᵀ`: for `A` of the shape `[m, n]` and k = min(m, n), `U: [m, k]`, `s: [k]` in
/// descending order, and `Vᵀ: [k, n]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Svd;

/// Applies [`Svd`] to a tensor. Returns `U`, `s` and `Vᵀ`.
#[track_caller]
pub(crate) fn svd(operand: &Tensor) -> Result<[Tensor; 3], TensorError> {
    Ok(three(&try_apply(&Svd, &[operand])?))
}

fn three(results: &[Tensor]) -> [Tensor; 3] {
    [0, 1, 2].map(|position| results[position].clone())
}

const OPERATION: &str = "take the singular values of";

/// Returns the tangents of `U`, `s` and `Vᵀ` (Giles, "Collected matrix derivative results for forward and reverse mode
/// algorithmic differentiation", 2008, section 3.2; the form of `jax.lax.linalg.svd`). Equal singular values give
/// infinities and NaN.
fn tangents_of(operand: &Tensor, [u, s, v_t]: [&Tensor; 3], tangent: &Tensor) -> [Tensor; 3] {
    let [m, n] = lengths(operand);
    let (u_t, v) = (adjoint(u), adjoint(v_t));
    let (row, column) = (s.expand_dims(-2), s.expand_dims(-1));
    let middle = product(&product(&u_t, tangent), &v);
    let identity = identity(&middle);
    let differences = (&row + &column) * (&row - &column);
    let quotients = 1.0 / (differences + &identity) - &identity;
    let by_row = &row * &middle;
    let by_column = &column * &middle;
    // The reciprocal of a zero is 0 here.
    let zeros = s.equal(0.0).convert(s.dtype());
    let reciprocals = (1.0 / (s + &zeros) - &zeros).expand_dims(-2) * &identity;
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

/// Returns the dtypes and shapes of the results for matrices of `m` rows and `n` columns.
fn infos_of(operand: &AbstractArray, [m, n]: [usize; 2]) -> [AbstractArray; 3] {
    let k = m.min(n);
    [&[m, k][..], &[k], &[k, n]].map(|of| with_lengths(operand, of))
}

impl Primitive for Svd {
    fn name(&self) -> &'static str {
        "svd"
    }

    fn shape(&self, operands: &[&AbstractArray]) -> Result<Vec<AbstractArray>, TensorError> {
        check_real(OPERATION, operands)?;
        matrix_lengths(OPERATION, operands[0]).map(|lengths| infos_of(operands[0], lengths).into())
    }

    fn evaluate(&self, operands: &[Tensor]) -> Vec<Tensor> {
        or_panic(self.try_evaluate(operands))
    }

    fn try_evaluate(&self, operands: &[Tensor]) -> Result<Vec<Tensor>, TensorError> {
        let operand = &operands[0];
        let [m, n] = lengths(operand);
        let k = m.min(n);
        let infos = infos_of(operand.info(), [m, n]);
        with_real!(operand.dtype(), T => {
            let mut results = infos.each_ref().map(|info| filled(0.0, info.len()));
            if k > 0 {
                let [u, s, v_t] = &mut results;
                let matrices = elements::<T>(operand).chunks_exact(m * n);
                let u = u.chunks_exact_mut(m * k);
                let s = s.chunks_exact_mut(k);
                let v_t = v_t.chunks_exact_mut(k * n);
                let mut singular = Singular::new([m, n]);
                for (((matrix, u), s), v_t) in matrices.zip(u).zip(s).zip(v_t) {
                    let done = singular.compute::<T>(matrix, u, s, v_t);
                    done.map_err(|_| not_converged(OPERATION, operand))?;
                }
            }
            Ok(shaped(&infos, results))
        })
    }

    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> Tangents {
        let [u, s, v_t] = three(&apply(self, &[&primals[0]]));
        let tangents = match &tangents[0] {
            Some(tangent) => tangents_of(&primals[0], [&u, &s, &v_t], tangent).map(Some),
            None => [None, None, None],
        };
        (vec![u, s, v_t], tangents.into())
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], _: usize) -> Examples {
        batch_of_one(self, operands, axes)
    }

    fn lower(&self, block: &mut Block<'_>, operands: &[Value], _: &Infos<'_>) -> Lowered {
        Err(block.refused(
            operands,
            "StableHLO has no operation for singular values",
            "compute the decomposition on the host, outside of the function that is compiled for a device",
        ))
    }
}
