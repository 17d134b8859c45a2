//! Determinants, and their logarithms.

use pytree_derive::panicking_twin;
use pytree_transform::extend::called;
use pytree_transform::{Tensor, TensorError};

use crate::primitives::matrices::diagonal;
use crate::primitives::matrices::parity_sign;
use crate::primitives::{Implicit, determinant, lu};

/// Returns the determinant `[...]` of each matrix of `a: [..., n, n]`, like `jnp.linalg.det`. A matrix without rows has
/// the determinant 1.
///
/// The gradient is `det(A) A⁻ᵀ` (Jacobi's formula). For a singular matrix, it is the matrix of cofactors, as in JAX. If the
/// singular matrix has two or three rows, higher derivatives are defined, too. The determinant of a large matrix easily
/// overflows: use [`slogdet`] instead.
///
/// # Panics
/// Panics if the last two axes do not have the same length, or if the dtype is neither f32 nor f64.
///
/// # Examples
/// ```
/// use pytree_linalg as linalg;
/// use pytree_transform::Tensor;
/// let a = Tensor::from([[1.0, 2.0], [3.0, 4.0]]);
/// assert!((linalg::det(&a).item::<f64>() + 2.0).abs() < 1e-14);
/// ```
#[doc(alias("jnp.linalg.det", "np.linalg.det", "torch.linalg.det"))]
#[must_use]
#[panicking_twin(det, Shape | DType)]
pub fn try_det(a: &Tensor) -> Result<Tensor, TensorError> {
    let _called = called("apply `linalg::det` to");
    determinant(a)
}

/// Returns the sign and the natural logarithm of the absolute value of the determinant of each matrix of
/// `a: [..., n, n]`, like `jnp.linalg.slogdet`. Both have the shape `[...]`.
///
/// For a singular matrix, the sign is 0 and the logarithm is -∞, with derivatives that are infinite or NaN. The sign has no
/// derivative.
///
/// # Panics
/// Panics if the last two axes do not have the same length, or if the dtype is neither f32 nor f64.
///
/// # Examples
/// ```
/// use pytree_linalg as linalg;
/// use pytree_transform::Tensor;
/// let (sign, logarithm) = linalg::slogdet(&Tensor::from([[0.0, 2.0], [3.0, 0.0]]));
/// assert_eq!(sign, Tensor::from(-1.0));
/// assert!((logarithm.item::<f64>() - 6_f64.ln()).abs() < 1e-14);
/// ```
#[doc(alias("jnp.linalg.slogdet", "np.linalg.slogdet", "torch.linalg.slogdet"))]
#[must_use]
#[panicking_twin(slogdet, composed, Shape | DType)]
pub fn try_slogdet(a: &Tensor) -> Result<(Tensor, Tensor), TensorError> {
    let _called = called("apply `linalg::slogdet` to");
    let factors = lu(&a.stop_gradient())?;
    let pivots = diagonal(&factors.packed);
    let sign = pivots.sign().prod_axes(-1) * parity_sign(&factors.pivots, a.dtype());
    let logarithm = pivots.abs().log().sum_axes(-1);
    // The logarithm of a zero is -∞, but the sum of -∞ and ∞ is NaN.
    let is_zero = pivots.equal(0.0).any_axes(-1);
    let infinite = Tensor::full_like(&logarithm, f64::NEG_INFINITY);
    let logarithm = is_zero.select(&infinite, &logarithm);
    let factors = [&factors.packed, &factors.pivots, &factors.permutation];
    Ok((
        is_zero.select(Tensor::zeros_like(&sign), &sign),
        Implicit::LogDeterminant.apply(&logarithm, a, &factors),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pytree_transform::{DType, grad};

    /// The second derivative of the determinant of `[[a, b], [c, d]]` along `E` is `2 det E`, at each matrix. That of three
    /// rows at zero is zero, because the determinant is of the third degree.
    #[test]
    fn determinant_has_second_derivatives_at_singular_matrices() {
        let slope = |a: &Tensor| grad(|a: &Tensor| det(a))(a);
        for a in [[[0.0, 0.0], [0.0, 0.0]], [[1.0, 2.0], [2.0, 4.0]]] {
            let direction = Tensor::from([[1.0, 2.0], [3.0, 1.0]]);
            let found = grad(|a: &Tensor| (slope(a) * &direction).sum())(&Tensor::from(a));
            assert_eq!(found, Tensor::from([[1.0, -3.0], [-2.0, 1.0]]));
        }
        let zeros = Tensor::zeros(DType::F64, [3, 3]);
        assert_eq!(slope(&zeros), zeros);
        assert_eq!(grad(|a: &Tensor| slope(a).sum())(&zeros), zeros);
        // The rank is 2, and the last pivot is zero.
        let a = Tensor::from([[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 3.0]]);
        let found = grad(|a: &Tensor| slope(a).sum())(&a);
        let expected = [[4.0, -3.0, -1.0], [-3.0, 3.0, 0.0], [-1.0, 0.0, 1.0]];
        assert_eq!(found + 0.0, Tensor::from(expected));
    }
}
