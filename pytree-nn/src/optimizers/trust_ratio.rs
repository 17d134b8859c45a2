//! LAMB and LARS, which scale the norm of each update by the norm of its parameter.

use crate::optimizers::adam::{AdamOptions, scale_by_adam};
use crate::optimizers::moments::Momentum;
use crate::optimizers::prelude::*;
use crate::optimizers::rate::scale_by_learning_rate;
use crate::optimizers::trace;
use crate::optimizers::transformation::{chain, check_number};
use crate::optimizers::weight_decay::{WeightDecay, add_decayed_weights};

/// The options of [`lamb_with`], with the defaults of `optax.lamb`.
#[derive(Clone, Debug, Defaults)]
pub struct LambOptions {
    /// The options of Adam; by default the defaults of Adam, but with an `epsilon` of 10⁻⁶.
    #[default(AdamOptions { epsilon: 1e-6, ..AdamOptions::default() })]
    pub adam: AdamOptions,
    /// The weight decay; by default `None`, which means no weight decay.
    pub weight_decay: Option<WeightDecay>,
}

/// The options of [`lars_with`], with the defaults of `optax.lars`.
#[derive(Clone, Debug, Defaults)]
pub struct LarsOptions {
    /// The weight decay; by default `None`, which means no weight decay.
    pub weight_decay: Option<WeightDecay>,
    /// The factor and the ε of the trust ratio; by default 10⁻³ and 0.
    #[default(TrustRatioOptions { coefficient: 1e-3, ..TrustRatioOptions::default() })]
    pub trust_ratio: TrustRatioOptions,
    /// The decay of the momentum; by default 0.9.
    #[default(0.9)]
    pub decay: f64,
    /// The form of the momentum; by default [`Momentum::Classical`].
    #[default(Momentum::Classical)]
    pub momentum: Momentum,
}

/// Returns LAMB with its default options (You et al. 2020, "Large batch optimization for deep learning: training BERT
/// in 76 minutes", algorithm 2).
///
/// The chain consists of [`scale_by_adam`], the weight decay, [`scale_by_trust_ratio`] and the learning rate.
///
/// # Examples
/// ```
/// use pytree_nn::lamb;
/// assert_eq!(lamb(1e-3).len(), 3);
/// ```
///
/// # Panics
/// If a constant learning rate is negative or not finite.
#[doc(alias = "optax.lamb")]
#[track_caller]
pub fn lamb(learning_rate: impl Into<Schedule>) -> Chain {
    lamb_with(learning_rate, LambOptions::default())
}

/// Returns LAMB with options: see [`lamb`].
///
/// # Examples
/// ```
/// use pytree_nn::{LambOptions, lamb_with};
/// let options = LambOptions { weight_decay: Some(1e-2.into()), ..LambOptions::default() };
/// assert_eq!(lamb_with(1e-3, options).len(), 4);
/// ```
///
/// # Panics
/// If a constant learning rate or weight decay is negative or not finite, or if an option is out of its range.
#[track_caller]
pub fn lamb_with(learning_rate: impl Into<Schedule>, options: LambOptions) -> Chain {
    let mut parts = vec![scale_by_adam(options.adam)];
    // A closure in `Option::map` would hide the line of the caller.
    if let Some(weight_decay) = options.weight_decay {
        parts.push(add_decayed_weights(weight_decay));
    }
    parts.push(scale_by_trust_ratio(TrustRatioOptions::default()));
    parts.push(scale_by_learning_rate(learning_rate));
    chain(parts)
}

/// Returns LARS with its default options (You et al. 2017, "Large batch training of convolutional networks", algorithm
/// 1).
///
/// The chain consists of the weight decay, [`scale_by_trust_ratio`], the learning rate and the momentum.
///
/// # Examples
/// ```
/// use pytree_nn::lars;
/// assert_eq!(lars(0.1).len(), 3);
/// ```
///
/// # Panics
/// If a constant learning rate is negative or not finite.
#[doc(alias = "optax.lars")]
#[track_caller]
pub fn lars(learning_rate: impl Into<Schedule>) -> Chain {
    lars_with(learning_rate, LarsOptions::default())
}

/// Returns LARS with options: see [`lars`].
///
/// # Examples
/// ```
/// use pytree_nn::{LarsOptions, lars_with};
/// let options = LarsOptions { weight_decay: Some(1e-4.into()), ..LarsOptions::default() };
/// assert_eq!(lars_with(0.1, options).len(), 4);
/// ```
///
/// # Panics
/// If a constant learning rate or weight decay is negative or not finite, or if an option is out of its range.
#[track_caller]
pub fn lars_with(learning_rate: impl Into<Schedule>, options: LarsOptions) -> Chain {
    let mut parts = Vec::new();
    if let Some(weight_decay) = options.weight_decay {
        parts.push(add_decayed_weights(weight_decay));
    }
    parts.push(scale_by_trust_ratio(options.trust_ratio));
    parts.push(scale_by_learning_rate(learning_rate));
    parts.push(trace(options.decay, options.momentum));
    chain(parts)
}

/// The options of [`scale_by_trust_ratio`], with the defaults of `optax.scale_by_trust_ratio`.
#[derive(Static, Clone, Copy, Debug, Defaults, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct TrustRatioOptions {
    /// The factor c of the ratio; by default 1.
    #[default(1.0)]
    pub coefficient: f64,
    /// The number that is added to the norm of the update; by default 0.
    #[default(0.0)]
    pub epsilon: f64,
}

/// Multiplies each update by the norm of its parameter, and divides the product by the norm of the update.
#[derive(Module, Clone, Debug)]
struct ScaleByTrustRatio {
    #[r#static]
    options: TrustRatioOptions,
}

/// Returns the transformation that multiplies each update u by c ‖p‖ / (‖u‖ + ε) for its parameter p, with
/// c = `coefficient` and ε = `epsilon`. If either norm is 0, the update does not change. See [`lars`] for the source.
///
/// # Examples
/// ```
/// use pytree_nn::{GradientTransformation, TrustRatioOptions, scale_by_trust_ratio};
/// use pytree_transform::Tensor;
/// let (update, parameter) = (Tensor::from([0.0, 2.0]), Tensor::from([3.0, 4.0]));
/// let mut scale = scale_by_trust_ratio(TrustRatioOptions::default());
/// assert_eq!(scale.update(vec![update], &[parameter])[0], Tensor::from([0.0, 5.0]));
/// ```
///
/// # Panics
/// If the coefficient or ε is negative or not finite.
#[doc(alias = "optax.scale_by_trust_ratio")]
#[track_caller]
pub fn scale_by_trust_ratio(options: TrustRatioOptions) -> Chain {
    not_negative("scale_by_trust_ratio", "coefficient", options.coefficient);
    not_negative("scale_by_trust_ratio", "epsilon", options.epsilon);
    Chain::of(ScaleByTrustRatio { options })
}

impl GradientTransformation for ScaleByTrustRatio {
    fn init(&mut self, _: &Tree<Tensor>) {}

    fn update(&mut self, gradients: Vec<Tensor>, parameters: &[Tensor]) -> Vec<Tensor> {
        check_number("parameters", parameters.len(), gradients.len());
        let TrustRatioOptions {
            coefficient,
            epsilon,
        } = self.options;
        let pairs = gradients.iter().zip(parameters);
        pairs
            .map(|(gradient, parameter)| {
                let (of_parameter, of_gradient) = (norm(parameter), norm(gradient));
                let ratio = &of_parameter * coefficient / (&of_gradient + epsilon);
                let one = Tensor::ones_like(&ratio);
                let ratio = of_parameter.equal(0.0).select(&one, &ratio);
                gradient * of_gradient.equal(0.0).select(&one, &ratio)
            })
            .collect()
    }
}

/// Returns the norm of a tensor. At a tensor of zeros, the derivative is 0, although the formula would give NaN.
pub(super) fn norm(tensor: &Tensor) -> Tensor {
    let square = tensor.square().sum();
    let is_zero = square.equal(0.0);
    let safe = is_zero.select(Tensor::ones_like(&square), &square);
    is_zero.select(Tensor::zeros_like(&square), safe.sqrt())
}
