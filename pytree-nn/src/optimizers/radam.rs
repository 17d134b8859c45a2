//! Rectified Adam, which corrects the updates while the mean square comes from only a few gradients.

use crate::optimizers::adam::AdamOptions;
use crate::optimizers::moments::Corrections;
use crate::optimizers::prelude::*;
use crate::optimizers::ranges::finite;

/// The options of [`radam_with`] and [`scale_by_radam`], with the defaults of `optax.radam`.
#[derive(Static, Clone, Copy, Debug, Defaults, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct RadamOptions {
    /// The options that rectified Adam shares with Adam.
    pub adam: AdamOptions,
    /// An update is rectified if the number ρ is at least this threshold: see [`scale_by_radam`]. By default 5.
    #[default(5.0)]
    pub threshold: f64,
}

/// Returns rectified Adam with its default options: see [`scale_by_radam`].
///
/// # Examples
/// ```
/// use pytree_nn::radam;
/// assert_eq!(radam(1e-3).len(), 2);
/// ```
///
/// # Panics
/// If a constant learning rate is negative or not finite.
#[doc(alias("optax.radam", "torch.optim.RAdam"))]
#[track_caller]
pub fn radam(learning_rate: impl Into<Schedule>) -> Chain {
    radam_with(learning_rate, RadamOptions::default())
}

/// Returns rectified Adam with options: see [`scale_by_radam`].
///
/// # Examples
/// ```
/// use pytree_nn::{AdamOptions, RadamOptions, radam_with};
/// let adam = AdamOptions { beta2: 0.99, ..AdamOptions::default() };
/// let radam = radam_with(1e-3, RadamOptions { adam, ..RadamOptions::default() });
/// ```
///
/// # Panics
/// If a constant learning rate is negative or not finite, or if an option is out of its range.
#[track_caller]
pub fn radam_with(learning_rate: impl Into<Schedule>, options: RadamOptions) -> Chain {
    scale_by_radam(options).descend(learning_rate)
}

/// Rectifies the updates of Adam: see [`scale_by_radam`].
#[derive(Module, Clone, Debug)]
struct ScaleByRadam {
    #[state(OptState)]
    count: Tensor,
    #[state(OptState)]
    mean: Tree<Tensor>,
    #[state(OptState)]
    square_mean: Tree<Tensor>,
    #[r#static]
    options: RadamOptions,
}

/// Returns rectified Adam without the learning rate (Liu et al. 2020, "On the variance of the adaptive learning rate
/// and beyond", algorithm 2).
///
/// The means m̂ and v̂ are those of [`scale_by_adam`](crate::scale_by_adam). With ρ∞ = 2 / (1 - β₂) - 1 and
/// ρ = ρ∞ - 2 t β₂ᵗ / (1 - β₂ᵗ), the update is m̂ if ρ is below the threshold. Otherwise, the update is
/// r m̂ / (√(v̂ + ε') + ε) with r² = (ρ - 4) (ρ - 2) ρ∞ / ((ρ∞ - 4) (ρ∞ - 2) ρ). The numbers ρ and r are computed in
/// f64, because the difference in ρ would lose most of its digits in f32.
///
/// # Examples
/// ```
/// use pytree_nn::{RadamOptions, scale_by_radam};
/// assert_eq!(scale_by_radam(RadamOptions::default()).len(), 1);
/// ```
///
/// # Panics
/// If an option is out of its range: a β is negative or not below 1, an ε is negative or not finite, or the threshold is not finite.
#[doc(alias = "optax.scale_by_radam")]
#[track_caller]
pub fn scale_by_radam(options: RadamOptions) -> Chain {
    options.adam.check("scale_by_radam");
    finite("scale_by_radam", "threshold", options.threshold);
    Chain::of(ScaleByRadam {
        count: Tensor::from(0_u32),
        mean: Tree::none(),
        square_mean: Tree::none(),
        options,
    })
}

impl ScaleByRadam {
    /// Returns whether the update is rectified, and the factor r. If the update is not rectified, r is 1.
    fn rectification(&self, time: &Tensor) -> (Tensor, Scalar) {
        let beta2 = self.options.adam.beta2;
        let limit = 2.0 / (1.0 - beta2) - 1.0;
        let power = (time * beta2.ln()).exp();
        let length = limit - time * 2.0 * &power / (1.0 - &power);
        let is_rectified = length.greater_equal(self.options.threshold);
        let square =
            (&length - 4.0) * (&length - 2.0) * limit / (&length * ((limit - 4.0) * (limit - 2.0)));
        let square = is_rectified.select(&square, Tensor::ones_like(&square));
        (is_rectified, Scalar::new(square.sqrt()))
    }
}

impl GradientTransformation for ScaleByRadam {
    fn init(&mut self, parameters: &Tree<Tensor>) {
        self.mean = zeros(parameters);
        self.square_mean = self.mean.clone();
    }

    fn other_parameters(&self, parameters: &[Tensor]) -> Vec<(usize, AbstractArray)> {
        differing(self.mean.leaves(), parameters)
    }

    fn update(&mut self, gradients: Vec<Tensor>, _: &[Tensor]) -> Vec<Tensor> {
        let time = count_update(&mut self.count);
        let adam = self.options.adam;
        let (is_rectified, mut factor) = self.rectification(&time);
        let mut corrected = Corrections::new(adam.beta1, adam.beta2, adam.momentum, &time);
        let states = [&mut self.mean, &mut self.square_mean];
        each(states, gradients, |[mean, square_mean], gradient| {
            *mean = running_mean(mean, &gradient, adam.beta1);
            *square_mean = running_square_mean(square_mean, &gradient, adam.beta2);
            let mean = corrected.mean(mean, &gradient);
            let square = corrected.square(square_mean);
            let deviation = deviation(&square, adam.epsilon_root, adam.epsilon);
            let rectified = factor.of_type(gradient.dtype()) * &mean / deviation;
            is_rectified.select(&rectified, &mean)
        })
    }
}
