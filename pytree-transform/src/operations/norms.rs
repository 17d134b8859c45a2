//! Norms, and logarithms of sums of exponentials.

use pytree_derive::panicking_twin;
use pytree_kernels::loops::reduction::Reduction;

use crate::base::error::TensorError;
use crate::operations::axes::{TensorAxes, axes_of};
use crate::operations::fused::try_fused;
use crate::operations::reduce::{all_axes, called_with_floats, keep_axes, reductions};
use crate::primitives::reduce::{reduce_by, sum};
use crate::primitives::shape::reshape;
use crate::tensor::Tensor;

#[track_caller]
fn norm_over(tensor: &Tensor, axes: &[usize]) -> Result<Tensor, TensorError> {
    let _called = called_with_floats("take the norm of", tensor)?;
    try_fused(&[tensor], || Ok(sum(&(tensor * tensor), axes)?.sqrt()))
}

#[track_caller]
fn logsumexp_over(tensor: &Tensor, axes: &[usize]) -> Result<Tensor, TensorError> {
    let _called = called_with_floats("logsumexp", tensor)?;
    try_fused(&[tensor], || {
        if axes.iter().any(|&axis| tensor.shape()[axis] == 0) {
            return Ok(sum(tensor, axes)?.log());
        }
        let maximum = reduce_by(Reduction::Max, tensor, axes)?;
        let shift = keep_axes(&maximum, tensor, axes).stop_gradient();
        // An infinite shift would turn a row of -∞ into NaN. So a row of -∞ is shifted by 0.
        let shift = shift.isfinite().select(&shift, Tensor::zeros_like(&shift));
        let sums = sum(&(tensor - &shift).exp(), axes)?;
        Ok(sums.log() + reshape(&shift, sums.shape())?)
    })
}

reductions! {
    (norm_over, "take the norm of", " the elements are not floats."):

    /// Returns the square root of the sum of all squares. This is the Euclidean norm of a vector and the Frobenius norm
    /// of a matrix. The gradient at zero is NaN, as in JAX.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([3.0, 4.0]).norm(), Tensor::from(5.0));
    /// ```
    #[doc(alias("jnp.linalg.norm", "np.linalg.norm", "torch.linalg.norm"))]
    norm try_norm = all;

    /// Returns the square root of the sum of squares over `axes`, which are removed.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[3.0, 4.0], [0.0, 2.0]]).norm_axes([1]), Tensor::from([5.0, 2.0]));
    /// ```
    #[doc(alias("jnp.linalg.norm", "np.linalg.norm", "torch.linalg.norm"))]
    norm_axes try_norm_axes = removed;

    /// Returns the square root of the sum of squares over `axes`, which are kept with length 1.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// let x = Tensor::from([[3.0, 4.0], [0.0, 2.0]]);
    /// assert_eq!(&x / x.norm_keep([1]), Tensor::from([[0.6, 0.8], [0.0, 1.0]]));
    /// ```
    norm_keep try_norm_keep = kept;
}

reductions! {
    (logsumexp_over, "logsumexp", " the elements are not floats."):

    /// Returns log Σ eˣ over all elements as a scalar. The result is -∞ if there are no elements.
    ///
    /// The greatest element is subtracted first, so the sum does not overflow. If all elements are -∞, the result is
    /// -∞.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([1000.0, 1000.0]).logsumexp(), Tensor::from(1000.0 + 2.0_f64.ln()));
    /// ```
    #[doc(alias("jax.nn.logsumexp", "scipy.special.logsumexp", "torch.logsumexp"))]
    logsumexp try_logsumexp = all;

    /// Returns log Σ eˣ over `axes`, which are removed.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// assert_eq!(Tensor::from([[0.0, 0.0], [1.0, 1.0]]).logsumexp_axes([0]).shape(), [2]);
    /// ```
    #[doc(alias("jax.nn.logsumexp", "scipy.special.logsumexp", "torch.logsumexp"))]
    logsumexp_axes try_logsumexp_axes = removed;

    /// Returns log Σ eˣ over `axes`, which are kept with length 1.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// let x = Tensor::from([[0.0, 0.0]]);
    /// assert_eq!((&x - x.logsumexp_keep([-1])).exp(), Tensor::from([[0.5, 0.5]]));
    /// ```
    logsumexp_keep try_logsumexp_keep = kept;
}
