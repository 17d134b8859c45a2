//! A running average of the parameters of a model.

use pytree_core::kind::OptState;
use pytree_core::{Filter, LeafKind, Module, PytreeOf, Tree, graph, partition};
use pytree_transform::Tensor;

use crate::optimizers::ranges::fraction;

/// A running average of the parameters of a model, for evaluation (Polyak and Juditsky 1992, "Acceleration of
/// stochastic approximation by averaging"). The average is exponential, as in `optax.incremental_update`.
///
/// The average is a pytree of states, so it can be an argument and a result of `jit`, and can be saved.
///
/// # Examples
/// ```
/// use pytree_nn::{Linear, ParameterAverage, Rngs};
/// use pytree_transform::Tensor;
/// let mut model = Linear::new(1, 1, &mut Rngs::new(0));
/// model.weight = Tensor::from([[1.0_f32]]);
/// let mut average = ParameterAverage::new(&model, 0.75);
/// model.weight = Tensor::from([[5.0_f32]]);
/// average.update(&model);
/// assert_eq!(average.apply(&model).weight, Tensor::from([[2.0_f32]]));
/// ```
#[derive(Module, Clone, Debug)]
pub struct ParameterAverage {
    /// The average of each parameter.
    #[state(OptState)]
    average: Tree<Tensor>,
    #[r#static]
    decay: f64,
}

impl ParameterAverage {
    /// Creates an average that begins with the current parameters. `decay` is the weight of the old average in each
    /// update.
    ///
    /// # Panics
    /// If `decay` is not from 0 to 1.
    #[track_caller]
    pub fn new<M: PytreeOf<Tensor>>(model: &M, decay: f64) -> Self {
        fraction("ParameterAverage", "decay", decay);
        Self {
            average: parameters(model),
            decay,
        }
    }

    /// Adds the current parameters: average ← `decay` · average + (1 - `decay`) · parameter.
    ///
    /// # Panics
    /// If the parameters of the model differ from the average in their number, or in a shape or dtype.
    #[track_caller]
    pub fn update<M: PytreeOf<Tensor>>(&mut self, model: &M) {
        let decay = self.decay;
        let current = parameters(model);
        check(&self.average, &current);
        let averages = self.average.leaves_mut().iter_mut();
        for (average, parameter) in averages.zip(current.leaves()) {
            *average = &*average * decay + parameter * (1.0 - decay);
        }
    }

    /// Returns the model with each parameter replaced by its average. The states are those of `model`.
    ///
    /// # Panics
    /// If the parameters of the model differ from the average in their number, or in a shape or dtype.
    #[must_use]
    #[track_caller]
    pub fn apply<M: PytreeOf<Tensor>>(&self, model: &M) -> M {
        check(&self.average, &parameters(model));
        let mut averages = self.average.leaves().iter();
        let mut is_parameter = graph::structure(model)
            .leaf_kinds()
            .into_iter()
            .map(|kind| !matches!(kind, Some(LeafKind::State(_))))
            .collect::<Vec<_>>()
            .into_iter();
        graph::map(model, |leaf: &Tensor| {
            let average = is_parameter
                .next()
                .unwrap_or(false)
                .then(|| averages.next());
            average.flatten().unwrap_or(leaf).clone()
        })
    }
}

/// Returns the leaves of a model that are not states.
fn parameters<M: PytreeOf<Tensor>>(model: &M) -> Tree<Tensor> {
    partition::filter::<M, Tensor>(model, &!Filter::any_state()).into_tree()
}

/// Panics if the parameters differ in number, shape or dtype.
#[track_caller]
fn check(average: &Tree<Tensor>, current: &Tree<Tensor>) {
    let (expected, found) = (average.leaves(), current.leaves());
    assert!(
        expected.len() == found.len(),
        "cannot average: expected a model with {} parameters, found {}; make a new average for this model",
        expected.len(),
        found.len()
    );
    let paths = current.treedef().leaf_paths();
    for ((expected, found), path) in expected.iter().zip(found).zip(&paths) {
        assert!(
            expected.info() == found.info(),
            "cannot average {path}: expected {}, found {}; make a new average for this model",
            expected.info(),
            found.info()
        );
    }
}
