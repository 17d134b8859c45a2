//! Eigenvalues and eigenvectors of symmetric matrices.

use pytree_transform::extend::{Block, Examples, Primitive, Tangents, Value, apply, try_apply};
use pytree_transform::{AbstractArray, Tensor, TensorError};

use crate::kernels::memory::filled;
use crate::kernels::spectra::Eigen;
use crate::primitives::matrices::{
    Infos, Lowered, adjoint, batch_of_one, check_real, diagonal, elements, identity, not_converged,
    or_panic, product, square_length, with_lengths, with_real,
};

/// Returns the eigenvalues of symmetric matrices `[…, n, n]` in ascending order, `[…, n]`, and their eigenvectors as
/// columns, `[…, n, n]`. Reads only the lower triangle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Eigh;

/// Applies [`Eigh`] to a tensor.
#[track_caller]
pub(crate) fn eigh(operand: &Tensor) -> Result<(Tensor, Tensor), TensorError> {
    Ok(pair(try_apply(&Eigh, &[operand])?))
}

fn pair(mut results: Vec<Tensor>) -> (Tensor, Tensor) {
    let vectors = results.remove(1);
    (results.remove(0), vectors)
}

const OPERATION: &str = "take the eigenvalues of";

impl Primitive for Eigh {
    fn name(&self) -> &'static str {
        "eigh"
    }

    fn shape(&self, operands: &[&AbstractArray]) -> Result<Vec<AbstractArray>, TensorError> {
        check_real(OPERATION, operands)?;
        let size = square_length(OPERATION, operands[0])?;
        Ok(vec![
            with_lengths(operands[0], &[size]),
            operands[0].clone(),
        ])
    }

    fn evaluate(&self, operands: &[Tensor]) -> Vec<Tensor> {
        or_panic(self.try_evaluate(operands))
    }

    fn try_evaluate(&self, operands: &[Tensor]) -> Result<Vec<Tensor>, TensorError> {
        let operand = &operands[0];
        let size = operand.shape()[operand.rank() - 1];
        let of_values = with_lengths(operand.info(), &[size]);
        with_real!(operand.dtype(), T => {
            let mut values = filled(0.0, of_values.len());
            let mut vectors = filled(0.0, operand.len());
            if size > 0 {
                let matrices = elements::<T>(operand).chunks_exact(size * size);
                let values = values.chunks_exact_mut(size);
                let vectors = vectors.chunks_exact_mut(size * size);
                let mut eigen = Eigen::new(size);
                for ((matrix, values), vectors) in matrices.zip(values).zip(vectors) {
                    let done = eigen.compute::<T>(matrix, values, vectors);
                    done.map_err(|_| not_converged(OPERATION, operand))?;
                }
            }
            Ok(vec![
                Tensor::new(&of_values.shape[..], values),
                Tensor::new(operand.shape(), vectors),
            ])
        })
    }

    /// With `M = Vᵀ A' V`: `w' = diag(M)` and `V' = V (F ∘ M)`, where `F` is 1 / (wⱼ - wᵢ) outside of the diagonal and 0 on
    /// it (Giles, "Collected matrix derivative results for forward and reverse mode algorithmic differentiation", 2008,
    /// section 3.1). Equal eigenvalues give infinities and NaN.
    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> Tangents {
        let (values, vectors) = pair(apply(self, &[&primals[0]]));
        let (of_values, of_vectors) = tangents[0]
            .as_ref()
            .map(|tangent| {
                let middle = product(&product(&adjoint(&vectors), tangent), &vectors);
                let differences = values.expand_dims(-2) - values.expand_dims(-1);
                let identity = identity(&vectors);
                let quotients = 1.0 / (differences + &identity) - &identity;
                let of_vectors = product(&vectors, &(quotients * &middle));
                (diagonal(&middle), of_vectors)
            })
            .unzip();
        (vec![values, vectors], vec![of_values, of_vectors])
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], _: usize) -> Examples {
        batch_of_one(self, operands, axes)
    }

    fn lower(&self, block: &mut Block<'_>, operands: &[Value], _: &Infos<'_>) -> Lowered {
        Err(block.refused(
            operands,
            "StableHLO has no operation for eigenvalues",
            "compute the eigenvalues on the host, outside of the function that is compiled for a device",
        ))
    }
}
