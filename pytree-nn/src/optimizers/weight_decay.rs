//! Weight decay.

use pytree_core::{Filter, Module, Tree};
use pytree_transform::Tensor;

use crate::optimizers::error::OptimizerError;
use crate::optimizers::ranges;
use crate::optimizers::scheduled::Scheduled;
use crate::optimizers::selection::Selection;
use crate::optimizers::transformation::{Chain, GradientTransformation, Scalar, check_number};
use crate::schedules::Schedule;

/// The strength of a weight decay, and the parameters to which the weight decay applies.
///
/// A number or a schedule converts into a weight decay of all parameters.
///
/// # Examples
/// ```
/// use pytree_core::Filter;
/// use pytree_nn::{Linear, Optimizer, Rngs, WeightDecay, adamw};
/// let model = Linear::new(2, 3, &mut Rngs::new(0));
/// let decay = WeightDecay::new(1e-2).only(Filter::matrices());
/// let optimizer = Optimizer::new(&model, adamw(1e-3, decay));
/// ```
#[derive(Clone, Debug)]
pub struct WeightDecay {
    strength: Schedule,
    filter: Option<Filter>,
}

impl WeightDecay {
    /// Returns a weight decay of all parameters.
    pub fn new(strength: impl Into<Schedule>) -> Self {
        Self {
            strength: strength.into(),
            filter: None,
        }
    }

    /// Limits the weight decay to the parameters that `filter` accepts. The function that creates the optimizer returns
    /// an error if the filter accepts no parameter.
    #[must_use]
    pub fn only(mut self, filter: Filter) -> Self {
        self.filter = Some(filter);
        self
    }
}

impl<S: Into<Schedule>> From<S> for WeightDecay {
    fn from(strength: S) -> Self {
        Self::new(strength)
    }
}

/// Adds to each update a multiple of its parameter: see [`add_decayed_weights`].
#[derive(Module, Clone, Debug)]
pub struct AddDecayedWeights {
    weight_decay: Scheduled,
    #[r#static]
    selection: Selection,
}

/// Returns the transformation that adds `weight_decay` times each parameter to the update of the parameter. In a chain,
/// put this transformation before the learning rate.
///
/// # Examples
/// ```
/// use pytree_nn::{add_decayed_weights, chain, sgd};
/// let decayed = chain([add_decayed_weights(1e-4), sgd(0.1)]);
/// assert_eq!(decayed.len(), 2);
/// ```
///
/// # Panics
/// If a constant weight decay is negative or not finite.
#[doc(alias = "optax.add_decayed_weights")]
#[track_caller]
pub fn add_decayed_weights(weight_decay: impl Into<WeightDecay>) -> Chain {
    let WeightDecay { strength, filter } = weight_decay.into();
    ranges::strength("add_decayed_weights", "weight_decay", &strength);
    Chain::of(AddDecayedWeights {
        weight_decay: Scheduled::new(strength),
        selection: Selection::new(filter),
    })
}

impl GradientTransformation for AddDecayedWeights {
    fn check(&self, parameters: &Tree<Tensor>) -> Result<(), OptimizerError> {
        self.selection.choose(parameters)?;
        self.weight_decay.check()
    }

    fn init(&mut self, parameters: &Tree<Tensor>) {
        self.weight_decay.init(parameters);
        self.selection.init(parameters);
    }

    fn update(&mut self, gradients: Vec<Tensor>, parameters: &[Tensor]) -> Vec<Tensor> {
        check_number("parameters", parameters.len(), gradients.len());
        let mut strength = Scalar::new(self.weight_decay.next());
        let pairs = gradients.iter().zip(parameters).enumerate();
        pairs
            .map(|(position, (gradient, parameter))| {
                if self.selection.contains(position) {
                    gradient + parameter * strength.of_type(parameter.dtype())
                } else {
                    gradient.clone()
                }
            })
            .collect()
    }
}
