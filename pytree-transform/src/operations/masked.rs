//! Sums and means of the elements where a mask is true, and weighted means.
//!
//! These functions are the last step of a masked loss. A mask must have the shape of the tensor. If masks were
//! broadcast, a mask of a wrong shape would count an example several times without an error.

use pytree_derive::panicking_twin;
use pytree_kernels::base::dtype::DType;

use crate::base::error::{TensorError, called};
use crate::operations::fused::try_fused;
use crate::operations::reduce::{all_axes, called_with_floats, sum_over, wide_floats};
use crate::primitives::convert::convert;
use crate::primitives::reduce::sum;
use crate::tensor::Tensor;

/// Returns an error unless `mask` is a tensor of bools with the shape of `tensor`.
fn check_mask(operation: &'static str, tensor: &Tensor, mask: &Tensor) -> Result<(), TensorError> {
    let operands = [tensor.info(), mask.info()];
    if mask.dtype() != DType::Bool {
        let expected = "a mask of bools as the second operand";
        return Err(TensorError::dtype(operation, &operands, expected));
    }
    check_same_shape(operation, tensor, mask)
}

fn check_same_shape(
    operation: &'static str,
    tensor: &Tensor,
    other: &Tensor,
) -> Result<(), TensorError> {
    if tensor.shape() == other.shape() {
        return Ok(());
    }
    Err(TensorError::shape(
        operation,
        &[tensor.info(), other.info()],
        "the shapes differ",
        "pass one element for each element of the tensor; to repeat elements, use `broadcast_to`",
    ))
}

/// Returns the tensor with zeros where `mask` is false.
#[track_caller]
fn selected(tensor: &Tensor, mask: &Tensor) -> Result<Tensor, TensorError> {
    mask.try_select(tensor, Tensor::constant(tensor.dtype(), 0.0))
}

impl Tensor {
    /// Returns the sum of the elements where `mask` is true, as a scalar: `jnp.sum(x, where=mask)`. Other elements have
    /// no effect on the result, even NaN and infinite elements. The gradient of other elements is 0. See
    /// [`mean_where`](Self::mean_where) for functions with an infinite derivative before the mask.
    ///
    /// `mask` is a tensor of bools with the shape of this tensor.
    ///
    /// # Panics
    /// Panics if the shapes differ, if the mask is not a tensor of bools, or if the elements are bool.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// let x = Tensor::from([1.0, f64::NAN, 3.0]);
    /// assert_eq!(x.sum_where(&Tensor::from([true, false, true])), Tensor::from(4.0));
    /// ```
    #[panicking_twin(sum_where, Shape | DType)]
    pub fn try_sum_where(&self, mask: &Self) -> Result<Self, TensorError> {
        let _called = called("sum_where");
        check_mask("sum_where", self, mask)?;
        try_fused(&[self], || {
            sum_over(&selected(self, mask)?, &all_axes(self))
        })
    }

    /// Returns the mean of the elements where `mask` is true, as a scalar: `jnp.mean(x, where=mask)`. Other elements
    /// have no effect on the result, even NaN and infinite elements. The gradient of other elements is 0. If the mask
    /// is false everywhere, the mean is NaN, as in JAX.
    ///
    /// `mask` is a tensor of bools with the shape of this tensor.
    ///
    /// A function that has computed this tensor multiplies the gradient of 0 by its own derivative. Where that is infinite
    /// or NaN, for instance of `sqrt` at 0, the product is NaN, as in JAX. So replace such elements before the function, as
    /// in the second example.
    ///
    /// # Panics
    /// Panics if the shapes differ, if the mask is not a tensor of bools, or if the elements are not floats.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// // The loss of each token; the last token is padding.
    /// let losses = Tensor::from([1.0_f32, 3.0, 100.0]);
    /// let loss = losses.mean_where(&Tensor::from([true, true, false]));
    /// assert_eq!(loss.item::<f32>(), 2.0);
    /// ```
    /// ```
    /// use pytree_transform::{Tensor, grad};
    /// let mask = Tensor::from([true, false]);
    /// let loss = |x: &Tensor| mask.select(x, &Tensor::ones_like(x)).sqrt().mean_where(&mask);
    /// assert_eq!(grad(loss)(&Tensor::from([4.0, 0.0])), Tensor::from([0.25, 0.0]));
    /// ```
    #[panicking_twin(mean_where, Shape | DType)]
    pub fn try_mean_where(&self, mask: &Self) -> Result<Self, TensorError> {
        let _called = called_with_floats("mean_where", self)?;
        check_mask("mean_where", self, mask)?;
        try_fused(&[self], || {
            let axes = all_axes(self);
            let wide = wide_floats(self)?;
            let total = sum(&selected(&wide, mask)?, &axes)?;
            let count = sum(&convert(mask, wide.dtype())?, &axes)?;
            convert(&(total / count), self.dtype())
        })
    }

    /// Returns the mean of all elements with the given weights, as a scalar: Σ wᵢ xᵢ / Σ wᵢ, like
    /// `jnp.average(x, weights=w)`. If the sum of the weights is 0, the result is NaN or infinite.
    ///
    /// `weights` has the shape and dtype of this tensor.
    ///
    /// # Panics
    /// Panics if the shapes or dtypes differ, or if the elements are not floats.
    ///
    /// # Examples
    /// ```
    /// use pytree_transform::Tensor;
    /// let mean = Tensor::from([1.0, 5.0]).weighted_mean(&Tensor::from([3.0, 1.0]));
    /// assert_eq!(mean, Tensor::from(2.0));
    /// ```
    #[doc(alias = "jnp.average")]
    #[panicking_twin(weighted_mean, Shape | DType)]
    pub fn try_weighted_mean(&self, weights: &Self) -> Result<Self, TensorError> {
        let _called = called_with_floats("weighted_mean", self)?;
        check_same_shape("weighted_mean", self, weights)?;
        if weights.dtype() != self.dtype() {
            let operands = [self.info(), weights.info()];
            return Err(TensorError::dtype(
                "weighted_mean",
                &operands,
                "equal dtypes",
            ));
        }
        try_fused(&[self], || {
            let axes = all_axes(self);
            let (values, weights) = (wide_floats(self)?, wide_floats(weights)?);
            let total = sum(&(&values * &weights), &axes)?;
            convert(&(total / sum(&weights, &axes)?), self.dtype())
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::grad;

    #[test]
    fn masked_nan_has_no_gradient() {
        let mask = Tensor::from([true, false, true]);
        let x = Tensor::from([4.0, f64::NAN, 9.0]);
        let gradient = grad(|x: &Tensor| x.sqrt().mean_where(&mask))(&x);
        let found = gradient.to_vec::<f64>();
        assert!((found[0] - 0.125).abs() < 1e-15 && (found[2] - 1.0 / 12.0).abs() < 1e-15);
        assert_eq!(x.sum_where(&mask), Tensor::from(13.0));
    }

    #[test]
    fn mask_behind_infinite_derivative_gives_nan() {
        let mask = Tensor::from([true, false]);
        let x = Tensor::from([4.0, 0.0]);
        let gradient = grad(|x: &Tensor| x.sqrt().mean_where(&mask))(&x);
        assert!(gradient.to_vec::<f64>()[1].is_nan());
        let safe = |x: &Tensor| mask.select(x, Tensor::ones_like(x)).sqrt();
        let gradient = grad(|x: &Tensor| safe(x).mean_where(&mask))(&x);
        assert_eq!(gradient, Tensor::from([0.25, 0.0]));
    }

    #[test]
    fn mean_of_nothing_is_nan() {
        let x = Tensor::from([1.0, 2.0]);
        assert!(
            x.mean_where(&Tensor::from([false, false]))
                .item::<f64>()
                .is_nan()
        );
    }

    #[test]
    fn mask_is_not_broadcast() {
        let x = Tensor::from([[1.0, 2.0], [3.0, 4.0]]);
        let error = x.try_mean_where(&Tensor::from([true, false])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot mean_where f64[2,2] and bool[2]: the shapes differ; pass one element for each element of the tensor; to repeat elements, use `broadcast_to`"
        );
        let error = x.try_sum_where(&x).unwrap_err().to_string();
        assert!(
            error.contains("expected a mask of bools as the second operand"),
            "{error}"
        );
        let error = x
            .try_weighted_mean(&x.convert(DType::F32))
            .unwrap_err()
            .to_string();
        assert!(error.contains("expected equal dtypes"), "{error}");
    }
}
