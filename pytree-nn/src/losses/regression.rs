//! Losses of real numbers: absolute errors, squared errors, and smooth functions between both.

use pytree_core::shapes;
use pytree_derive::panicking_twin;
use pytree_transform::Tensor;

use crate::error::InputError;

/// Returns the mean of the squared differences between predictions and targets.
///
/// The shapes are not broadcast, because broadcasting would hide mistakes. For the mean over a part of the elements,
/// use [`squared_error`] with [`Tensor::mean_where`].
///
/// # Examples
/// ```
/// use pytree_nn::mse;
/// use pytree_transform::Tensor;
/// let loss = mse(&Tensor::from([1.0_f32, 2.0]), &Tensor::from([1.0_f32, 4.0]));
/// assert_eq!(loss.item::<f32>(), 2.0);
/// ```
///
/// # Panics
/// If the shapes or dtypes differ, or if the elements are not floats.
#[doc(alias("F.mse_loss", "nn.MSELoss"))]
#[shapes(
    predictions = "T: float[*shape]",
    targets = "T[*shape]",
    return = "T[]"
)]
#[panicking_twin(mse)]
pub fn try_mse(predictions: &Tensor, targets: &Tensor) -> Result<Tensor, InputError> {
    Ok((predictions - targets).square().mean())
}

/// Returns the mean of the absolute differences between predictions and targets. Where both numbers are equal, the
/// gradient is 0.
///
/// # Examples
/// ```
/// use pytree_nn::mae;
/// use pytree_transform::Tensor;
/// let loss = mae(&Tensor::from([1.0_f32, 2.0]), &Tensor::from([1.0_f32, 4.0]));
/// assert_eq!(loss.item::<f32>(), 1.0);
/// ```
///
/// # Panics
/// If the shapes or dtypes differ, or if the elements are not floats.
#[doc(alias("F.l1_loss", "nn.L1Loss"))]
#[shapes(
    predictions = "T: float[*shape]",
    targets = "T[*shape]",
    return = "T[]"
)]
#[panicking_twin(mae)]
pub fn try_mae(predictions: &Tensor, targets: &Tensor) -> Result<Tensor, InputError> {
    Ok((predictions - targets).abs().mean())
}

/// Returns the absolute difference |p - t| of each prediction and its target: `[*shape]`. Where both numbers are equal,
/// the gradient is 0.
///
/// # Examples
/// ```
/// use pytree_nn::l1_loss;
/// use pytree_transform::Tensor;
/// let losses = l1_loss(&Tensor::from([1.0, 2.0]), &Tensor::from([1.5, 0.0]));
/// assert_eq!(losses, Tensor::from([0.5, 2.0]));
/// ```
///
/// # Panics
/// If the shapes or dtypes differ, or if the elements are not floats.
#[shapes(
    predictions = "T: float[*shape]",
    targets = "T[*shape]",
    return = "T[*shape]"
)]
#[panicking_twin(l1_loss)]
pub fn try_l1_loss(predictions: &Tensor, targets: &Tensor) -> Result<Tensor, InputError> {
    Ok((predictions - targets).abs())
}

/// Returns the squared difference (p - t)² of each prediction and its target: `[*shape]`. The loss is
/// `optax.squared_error`.
///
/// # Examples
/// ```
/// use pytree_nn::squared_error;
/// use pytree_transform::Tensor;
/// let losses = squared_error(&Tensor::from([1.0, 2.0]), &Tensor::from([1.5, 0.0]));
/// assert_eq!(losses, Tensor::from([0.25, 4.0]));
/// ```
///
/// # Panics
/// If the shapes or dtypes differ, or if the elements are not floats.
#[doc(alias = "optax.squared_error")]
#[shapes(
    predictions = "T: float[*shape]",
    targets = "T[*shape]",
    return = "T[*shape]"
)]
#[panicking_twin(squared_error)]
pub fn try_squared_error(predictions: &Tensor, targets: &Tensor) -> Result<Tensor, InputError> {
    Ok((predictions - targets).square())
}

/// Returns half of the squared difference, ½ (p - t)², of each prediction and its target: `[*shape]`. The gradient with
/// respect to p is p - t. The loss is `optax.l2_loss`.
///
/// # Examples
/// ```
/// use pytree_nn::l2_loss;
/// use pytree_transform::Tensor;
/// let losses = l2_loss(&Tensor::from([1.0, 2.0]), &Tensor::from([1.5, 0.0]));
/// assert_eq!(losses, Tensor::from([0.125, 2.0]));
/// ```
///
/// # Panics
/// If the shapes or dtypes differ, or if the elements are not floats.
#[doc(alias = "optax.l2_loss")]
#[shapes(
    predictions = "T: float[*shape]",
    targets = "T[*shape]",
    return = "T[*shape]"
)]
#[panicking_twin(l2_loss)]
pub fn try_l2_loss(predictions: &Tensor, targets: &Tensor) -> Result<Tensor, InputError> {
    Ok((predictions - targets).square() * 0.5)
}

/// Returns the Huber loss of each prediction p and its target t: `[*shape]`. With e = p - t, the loss is ½ e² if
/// |e| ≤ δ, and otherwise δ (|e| - ½ δ). The gradient with respect to p is e, limited to [-δ, δ].
///
/// The number δ is `delta`. The source is Huber 1964, "Robust estimation of a location parameter". The same function in
/// optax, `optax.huber_loss`, has the default δ = 1.
///
/// # Examples
/// ```
/// use pytree_nn::huber_loss;
/// use pytree_transform::Tensor;
/// let losses = huber_loss(&Tensor::from([0.5, 3.0]), &Tensor::from([0.0, 0.0]), 1.0);
/// assert_eq!(losses, Tensor::from([0.125, 2.5]));
/// ```
///
/// # Panics
/// If the shapes or dtypes differ, or if the elements are not floats.
#[doc(alias("optax.huber_loss", "F.huber_loss", "nn.HuberLoss"))]
#[shapes(
    predictions = "T: float[*shape]",
    targets = "T[*shape]",
    return = "T[*shape]"
)]
#[panicking_twin(huber_loss)]
pub fn try_huber_loss(
    predictions: &Tensor,
    targets: &Tensor,
    delta: f64,
) -> Result<Tensor, InputError> {
    let errors = (predictions - targets).abs();
    let quadratic = errors.minimum(delta);
    let linear = errors - &quadratic;
    Ok(quadratic.square() * 0.5 + linear * delta)
}

/// Returns log(cosh(p - t)) of each prediction p and its target t: `[*shape]`. With e = p - t, the loss is near ½ e²
/// for small e, and near |e| - log 2 for large e. The computation does not overflow.
///
/// The source is Chen et al. 2019, "Log hyperbolic cosine loss improves variational auto-encoder". The same function in
/// optax is `optax.log_cosh`.
///
/// # Examples
/// ```
/// use pytree_nn::log_cosh;
/// use pytree_transform::Tensor;
/// let losses = log_cosh(&Tensor::from([1000.0]), &Tensor::from([0.0]));
/// assert_eq!(losses, Tensor::from([1000.0 - 2.0_f64.ln()]));
/// ```
///
/// # Panics
/// If the shapes or dtypes differ, or if the elements are not floats.
#[doc(alias = "optax.log_cosh")]
#[shapes(
    predictions = "T: float[*shape]",
    targets = "T[*shape]",
    return = "T[*shape]"
)]
#[panicking_twin(log_cosh)]
pub fn try_log_cosh(predictions: &Tensor, targets: &Tensor) -> Result<Tensor, InputError> {
    let errors = predictions - targets;
    Ok(errors.logaddexp(-&errors) - std::f64::consts::LN_2)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn mse_does_not_broadcast() {
        let error = try_mse(&Tensor::from([1.0, 2.0]), &Tensor::from([[1.0], [2.0]]))
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with(
                "mse: targets is f64[2,1], expected T[*shape] with *shape = [2] (from predictions: f64[2] as T: float[*shape]); pass targets and predictions with the same axes `*shape`"
            ),
            "{error}"
        );
    }
}
