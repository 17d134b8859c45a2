//! Factorizations of matrices.

use pytree_derive::panicking_twin;
use pytree_transform::extend::called;
use pytree_transform::{Tensor, TensorError};

use crate::primitives;
use crate::primitives::matrices::{adjoint, check_real};
use crate::systems::check_square;

/// Returns `(A + Aᵀ) / 2`, or an error if `operand` does not have square matrices.
#[track_caller]
fn symmetrized(operation: &'static str, operand: &Tensor) -> Result<Tensor, TensorError> {
    check_real(operation, &[operand.info()])?;
    check_square(operation, operand)?;
    Ok((operand + adjoint(operand)) * 0.5)
}

/// Returns the lower triangular matrix `L` of `A = L Lᵀ` for a symmetric, positive definite matrix `a: [..., n, n]`,
/// like `jnp.linalg.cholesky`.
///
/// As in JAX, `(A + Aᵀ) / 2` is factorized, so the gradient is symmetric, and the upper triangle of `L` is zero. If `A`
/// is not positive definite or has NaN, the lower triangle of `L` is NaN. The derivative is that of Murray,
/// "Differentiation of the Cholesky decomposition" (2016), equation 8.
///
/// # Panics
/// Panics if the last two axes do not have the same length, or if the dtype is neither f32 nor f64.
///
/// # Examples
/// ```
/// use pytree_linalg as linalg;
/// use pytree_transform::Tensor;
/// let a = Tensor::from([[4.0, 2.0], [2.0, 5.0]]);
/// assert_eq!(linalg::cholesky(&a), Tensor::from([[2.0, 0.0], [1.0, 2.0]]));
/// ```
#[doc(alias("jnp.linalg.cholesky", "np.linalg.cholesky", "torch.linalg.cholesky"))]
#[must_use]
#[panicking_twin(cholesky, composed, Shape | DType)]
pub fn try_cholesky(a: &Tensor) -> Result<Tensor, TensorError> {
    let _called = called("apply `linalg::cholesky` to");
    primitives::cholesky(&symmetrized("apply `linalg::cholesky` to", a)?)
}

/// Returns the matrices `(Q, R)` of `A = Q R` for `a: [..., m, n]`, like `jnp.linalg.qr` with `mode="reduced"`. With
/// k = min(m, n), the columns of `Q: [..., m, k]` are orthonormal, and `R: [..., k, n]` is zero below the diagonal.
///
/// The signs are those of LAPACK, as in JAX. The derivative needs independent columns, except for the last column of a
/// square matrix; see <https://j-towns.github.io/papers/qr-derivative.pdf>.
///
/// # Panics
/// Panics if there are fewer than two axes, or if the dtype is neither f32 nor f64.
///
/// # Examples
/// ```
/// use pytree_linalg as linalg;
/// use pytree_transform::Tensor;
/// let a = Tensor::from([[3.0, 1.0], [4.0, 2.0]]);
/// let (q, r) = linalg::qr(&a);
/// assert!((q.matmul(&r) - &a).abs().max().item::<f64>() < 1e-14);
/// assert!((r.index([0.into(), 0.into()]).item::<f64>() + 5.0).abs() < 1e-14);
/// ```
#[doc(alias("jnp.linalg.qr", "np.linalg.qr", "torch.linalg.qr"))]
#[must_use]
#[panicking_twin(qr, Shape | DType)]
pub fn try_qr(a: &Tensor) -> Result<(Tensor, Tensor), TensorError> {
    let _called = called("apply `linalg::qr` to");
    primitives::qr(a)
}

/// Returns the eigenvalues `[..., n]` of a symmetric matrix `a: [..., n, n]` in ascending order, and the eigenvectors as
/// the columns of a matrix `[..., n, n]`, like `jnp.linalg.eigh`.
///
/// As in JAX, the function computes with `(A + Aᵀ) / 2`. The sign of an eigenvector is arbitrary. If an element is not
/// finite, all results are NaN. The derivative of the eigenvectors is infinite or NaN for equal eigenvalues (Giles,
/// "Collected matrix derivative results", 2008, section 3.1).
///
/// # Panics
/// Panics if the last two axes do not have the same length, or if the dtype is neither f32 nor f64. Panics if the
/// iteration does not converge; no matrix of finite numbers is known for which this happens.
///
/// # Examples
/// ```
/// use pytree_linalg as linalg;
/// use pytree_transform::Tensor;
/// let (values, vectors) = linalg::eigh(&Tensor::from([[2.0, 1.0], [1.0, 2.0]]));
/// assert!((values - Tensor::from([1.0, 3.0])).abs().max().item::<f64>() < 1e-14);
/// assert_eq!(vectors.shape(), [2, 2]);
/// ```
#[doc(alias("jnp.linalg.eigh", "np.linalg.eigh", "torch.linalg.eigh"))]
#[must_use]
#[panicking_twin(eigh, composed, Shape | DType | NotConverged)]
pub fn try_eigh(a: &Tensor) -> Result<(Tensor, Tensor), TensorError> {
    let _called = called("apply `linalg::eigh` to");
    primitives::eigh(&symmetrized("apply `linalg::eigh` to", a)?)
}

/// Returns `(U, s, Vᵀ)` of `A = U diag(s) Vᵀ` for `a: [..., m, n]`, like `jnp.linalg.svd` with `full_matrices=False`. With
/// k = min(m, n), `U: [..., m, k]` and `Vᵀ: [..., k, n]` have orthonormal columns and rows, and the singular values
/// `s: [..., k]` are in descending order.
///
/// The signs of a pair of singular vectors are arbitrary. If an element is not finite, all results are NaN. The
/// derivative of the vectors is infinite or NaN for equal singular values (Giles, "Collected matrix derivative
/// results", 2008, section 3.2).
///
/// # Panics
/// Panics if there are fewer than two axes, or if the dtype is neither f32 nor f64. Panics if the
/// iteration does not converge; no matrix of finite numbers is known for which this happens.
///
/// # Examples
/// ```
/// use pytree_linalg as linalg;
/// use pytree_transform::Tensor;
/// let (_, s, _) = linalg::svd(&Tensor::from([[3.0, 0.0], [0.0, -4.0], [0.0, 0.0]]));
/// assert!((s - Tensor::from([4.0, 3.0])).abs().max().item::<f64>() < 1e-14);
/// ```
#[doc(alias("jnp.linalg.svd", "np.linalg.svd", "torch.linalg.svd"))]
#[must_use]
#[panicking_twin(svd, Shape | DType | NotConverged)]
pub fn try_svd(a: &Tensor) -> Result<(Tensor, Tensor, Tensor), TensorError> {
    let _called = called("apply `linalg::svd` to");
    let [u, s, v_t] = primitives::svd(a)?;
    Ok((u, s, v_t))
}
