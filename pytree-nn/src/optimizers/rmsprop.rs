//! `RMSProp`, optionally with a centred denominator, a bias correction, or momentum.

use crate::optimizers::amsgrad::BiasCorrection;
use crate::optimizers::moments::{Momentum, correction, full, plus};
use crate::optimizers::prelude::*;
use crate::optimizers::rate::scale_by_learning_rate;
use crate::optimizers::trace;
use crate::optimizers::transformation::chain;

/// Where [`RmsPropOptions::epsilon`] is added in the denominator.
#[derive(Static, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum EpsilonPlace {
    /// The denominator is √(v + ε), like `eps_in_sqrt=True` in optax.
    #[default]
    InsideRoot,
    /// The denominator is √v + ε, like `eps_in_sqrt=False` in optax and as in PyTorch.
    OutsideRoot,
}

/// The denominator of [`rmsprop_with`].
#[derive(Static, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Centering {
    /// The root of the running mean square.
    #[default]
    Uncentered,
    /// The root of the running variance, like `centered=True` in optax.
    Centered,
}

/// The options of [`rmsprop_with`] and [`scale_by_rms`], with the defaults of `optax.rmsprop`.
#[derive(Static, Clone, Copy, Debug, Defaults, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct RmsPropOptions {
    /// The weight of the old means when the running means are updated; by default 0.9.
    #[default(0.9)]
    pub decay: f64,
    /// The number that is added to the denominator; by default 10⁻⁸.
    #[default(1e-8)]
    pub epsilon: f64,
    /// Where `epsilon` is added; by default [`EpsilonPlace::InsideRoot`].
    #[default(EpsilonPlace::InsideRoot)]
    pub epsilon_place: EpsilonPlace,
    /// The initial value of the mean square; by default 0.
    #[default(0.0)]
    pub initial_scale: f64,
    /// Whether the denominator is centred; by default [`Centering::Uncentered`].
    #[default(Centering::Uncentered)]
    pub centering: Centering,
    /// Whether the bias of the means is corrected; by default [`BiasCorrection::Uncorrected`].
    #[default(BiasCorrection::Uncorrected)]
    pub bias_correction: BiasCorrection,
    /// The decay and the form of the momentum; by default `None`, which means no momentum. The momentum is applied to
    /// the updates after their multiplication by the learning rate. [`scale_by_rms`] does not use this option.
    pub momentum: Option<(f64, Momentum)>,
}

/// Returns `RMSProp` with its default options: see [`scale_by_rms`].
///
/// # Examples
/// ```
/// use pytree_nn::rmsprop;
/// assert_eq!(rmsprop(1e-3).len(), 2);
/// ```
///
/// # Panics
/// If a constant learning rate is negative or not finite.
#[doc(alias("optax.rmsprop", "torch.optim.RMSprop"))]
#[track_caller]
pub fn rmsprop(learning_rate: impl Into<Schedule>) -> Chain {
    rmsprop_with(learning_rate, RmsPropOptions::default())
}

/// Returns `RMSProp` with options: see [`scale_by_rms`].
///
/// # Examples
/// ```
/// use pytree_nn::{Centering, Momentum, RmsPropOptions, rmsprop_with};
/// let options = RmsPropOptions {
///     centering: Centering::Centered,
///     momentum: Some((0.9, Momentum::Nesterov)),
///     ..RmsPropOptions::default()
/// };
/// assert_eq!(rmsprop_with(1e-3, options).len(), 3);
/// ```
///
/// # Panics
/// If a constant learning rate is negative or not finite, or if an option is out of its range.
#[track_caller]
pub fn rmsprop_with(learning_rate: impl Into<Schedule>, options: RmsPropOptions) -> Chain {
    let mut parts = vec![scale_by_rms(options), scale_by_learning_rate(learning_rate)];
    if let Some((decay, momentum)) = options.momentum {
        parts.push(trace(decay, momentum));
    }
    chain(parts)
}

/// Divides gradients by the root of their running mean square or variance.
#[derive(Module, Clone, Debug)]
struct ScaleByRms {
    /// The number of updates, which the bias correction needs. `None` if the means are not corrected.
    #[state(OptState)]
    count: Option<Tensor>,
    /// The running mean of the gradients, which the variance needs. `None` if the denominator is not centred.
    #[state(OptState)]
    mean: Option<Tree<Tensor>>,
    #[state(OptState)]
    square_mean: Tree<Tensor>,
    #[r#static]
    options: RmsPropOptions,
}

/// Returns `RMSProp` without the learning rate (Tieleman and Hinton 2012, "Lecture 6.5 - rmsprop"). The source of the
/// centred form is Graves 2013, "Generating sequences with recurrent neural networks", equations 38 to 41.
///
/// v ← decay · v + (1 - decay) g², and the update is g / √(v + ε). With [`Centering::Centered`], v in the update is
/// replaced by v - m², where m is the running mean of the gradients.
///
/// # Examples
/// ```
/// use pytree_nn::{RmsPropOptions, scale_by_rms};
/// assert_eq!(scale_by_rms(RmsPropOptions::default()).len(), 1);
/// ```
///
/// # Panics
/// If an option is out of its range: the decay is not from 0 to 1, or is 1 with a correction of the bias, or another number is
/// negative or not finite.
#[doc(alias("optax.scale_by_rms", "optax.scale_by_stddev"))]
#[track_caller]
pub fn scale_by_rms(options: RmsPropOptions) -> Chain {
    match options.bias_correction {
        BiasCorrection::Corrected => below_one("scale_by_rms", "decay", options.decay),
        BiasCorrection::Uncorrected => fraction("scale_by_rms", "decay", options.decay),
    }
    not_negative("scale_by_rms", "epsilon", options.epsilon);
    not_negative("scale_by_rms", "initial_scale", options.initial_scale);
    let is_corrected = options.bias_correction == BiasCorrection::Corrected;
    Chain::of(ScaleByRms {
        count: is_corrected.then(|| Tensor::from(0_u32)),
        mean: (options.centering == Centering::Centered).then(Tree::none),
        square_mean: Tree::none(),
        options,
    })
}

impl GradientTransformation for ScaleByRms {
    fn init(&mut self, parameters: &Tree<Tensor>) {
        if let Some(mean) = &mut self.mean {
            *mean = zeros(parameters);
        }
        self.square_mean = full(parameters, self.options.initial_scale);
    }

    fn other_parameters(&self, parameters: &[Tensor]) -> Vec<(usize, AbstractArray)> {
        differing(self.square_mean.leaves(), parameters)
    }

    fn update(&mut self, gradients: Vec<Tensor>, _: &[Tensor]) -> Vec<Tensor> {
        let options = self.options;
        let time = self.count.as_mut().map(count_update);
        let mut factor: Option<Scalar> = time.map(|time| correction(options.decay, &time));
        let mut corrected = |mean: &Tensor| match &mut factor {
            Some(factor) => mean * factor.of_type(mean.dtype()),
            None => mean.clone(),
        };
        let mut means = self.mean.as_mut().map(|mean| mean.leaves_mut().iter_mut());
        each(
            [&mut self.square_mean],
            gradients,
            |[square_mean], gradient| {
                *square_mean = running_square_mean(square_mean, &gradient, options.decay);
                let mut square = corrected(square_mean);
                if let Some(mean) = means.as_mut().and_then(Iterator::next) {
                    *mean = running_mean(mean, &gradient, options.decay);
                    square -= corrected(mean).square();
                }
                match options.epsilon_place {
                    EpsilonPlace::InsideRoot => plus(&square, options.epsilon).rsqrt() * gradient,
                    EpsilonPlace::OutsideRoot => gradient / plus(&square.sqrt(), options.epsilon),
                }
            },
        )
    }
}
