//! Running means of updates.

use crate::optimizers::amsgrad::BiasCorrection;
use crate::optimizers::moments::correction;
use crate::optimizers::prelude::*;

/// Replaces gradients by their running mean.
#[derive(Module, Clone, Debug)]
struct Ema {
    #[state(OptState)]
    count: Tensor,
    #[state(OptState)]
    mean: Tree<Tensor>,
    decay: Hyperparameter,
    #[r#static]
    bias_correction: BiasCorrection,
}

/// Returns the transformation that replaces gradients by their running mean, like `optax.ema`:
/// m ← `decay` · m + (1 - `decay`) g, and the update is m / (1 - `decay`ᵗ).
///
/// # Examples
/// ```
/// use pytree_nn::{chain, ema, sgd};
/// assert_eq!(chain([ema(0.9), sgd(0.1)]).len(), 2);
/// ```
///
/// # Panics
/// If `decay` is negative or not below 1.
#[doc(alias = "optax.ema")]
#[track_caller]
pub fn ema(decay: f64) -> Chain {
    ema_with(decay, BiasCorrection::Corrected)
}

/// Returns a transformation like [`ema`], with or without the division by 1 - `decay`ᵗ, which is `debias` in optax.
///
/// # Examples
/// ```
/// use pytree_nn::{BiasCorrection, ema_with};
/// assert_eq!(ema_with(0.9, BiasCorrection::Uncorrected).len(), 1);
/// ```
///
/// # Panics
/// If `decay` is not from 0 to 1, or is 1 with a correction of the bias.
#[track_caller]
pub fn ema_with(decay: f64, bias_correction: BiasCorrection) -> Chain {
    match bias_correction {
        BiasCorrection::Corrected => below_one("ema_with", "decay", decay),
        BiasCorrection::Uncorrected => fraction("ema_with", "decay", decay),
    }
    Chain::of(Ema {
        count: Tensor::from(0_u32),
        mean: Tree::none(),
        decay: decay.into(),
        bias_correction,
    })
}

impl GradientTransformation for Ema {
    fn init(&mut self, parameters: &Tree<Tensor>) {
        self.mean = zeros(parameters);
    }

    fn other_parameters(&self, parameters: &[Tensor]) -> Vec<(usize, AbstractArray)> {
        differing(self.mean.leaves(), parameters)
    }

    fn update(&mut self, gradients: Vec<Tensor>, _: &[Tensor]) -> Vec<Tensor> {
        let time = count_update(&mut self.count);
        let is_corrected = self.bias_correction == BiasCorrection::Corrected;
        let mut factor = is_corrected.then(|| correction(&self.decay, &time));
        each([&mut self.mean], gradients, |[mean], gradient| {
            *mean = running_mean(mean, &gradient, &self.decay);
            match &mut factor {
                Some(factor) => &*mean * factor.of_type(gradient.dtype()),
                None => mean.clone(),
            }
        })
    }

    fn hyperparameters(&mut self) -> Vec<NamedHyperparameter<'_>> {
        let decay = &mut self.decay;
        vec![match self.bias_correction {
            BiasCorrection::Corrected => NamedHyperparameter::below_one("decay", decay),
            BiasCorrection::Uncorrected => NamedHyperparameter::fraction("decay", decay),
        }]
    }
}
