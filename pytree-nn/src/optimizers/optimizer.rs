//! The optimizer: a chain of transformations and the choice of the trained leaves.
//!
//! The trained leaves are chosen when the optimizer is created, and the choice is static, so an update does not filter
//! the model again. All other data of an optimizer are leaves, so an optimizer can be an argument and a result of
//! `jit`, and can be saved in a checkpoint.

mod choices;

use std::fmt;
use std::marker::PhantomData;

use pytree_core::bug::{LEAVES, pairs};
use pytree_core::kind::OptState;
use pytree_core::{
    Filter, LeafKind, Module, Partition, PytreeOf, SelectPart, Static, boundary, graph, partition,
};
use pytree_derive::panicking_twin;
use pytree_transform::{Gradient, Tensor};

use self::choices::{Choice, choices_now, gradients_of};
use crate::optimizers::{Chain, GradientProblem, GradientTransformation, OptimizerError};

/// What an [`Optimizer`] does with a parameter that received no gradient, because the loss does not depend on it.
#[derive(Static, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum MissingGradients {
    /// The update is an error that names the parameter.
    #[default]
    Error,
    /// The gradient is zero, as in JAX. The update is then the same as for a gradient of zeros: momentum and weight
    /// decay still change the parameter, and the moments of Adam decay.
    Zero,
}

/// Applies gradients to the parameters of an `M`.
///
/// # Examples
/// ```
/// use pytree_nn::{Linear, Optimizer, Rngs, mse, sgd};
/// use pytree_transform::{Tensor, value_and_grad};
/// let mut model = Linear::new(1, 1, &mut Rngs::new(0));
/// let mut optimizer = Optimizer::new(&model, sgd(0.1));
/// let (x, y) = (Tensor::from([[1.0_f32], [2.0]]), Tensor::from([[3.0_f32], [5.0]]));
/// let loss = |model: &Linear| mse(&model.forward(&x), &y);
/// let (before, gradients) = value_and_grad(loss)(&model);
/// optimizer.update(&mut model, &gradients);
/// assert!(loss(&model).item::<f32>() < before.item::<f32>());
/// ```
#[derive(Module)]
pub struct Optimizer<M: 'static> {
    /// The number of updates: `u32[]`.
    #[state(OptState)]
    step: Tensor,
    transformation: Chain,
    /// For each leaf of the model, in the order of the graph form, whether it is trained and, if not, the reason.
    #[r#static]
    choices: Vec<Choice>,
    #[r#static]
    missing_gradients: MissingGradients,
    model: PhantomData<fn() -> M>,
}

impl<M: PytreeOf<Tensor>> Optimizer<M> {
    /// Creates an optimizer that trains all parameters of a model, and all its leaves without a kind.
    ///
    /// # Panics
    /// If there is no parameter, for example because all are frozen, or if a parameter is not a float. See
    /// [`try_with_filter`](Self::try_with_filter) for a fallible version.
    #[track_caller]
    pub fn new(model: &M, transformation: Chain) -> Self {
        Self::with_filter(model, transformation, &!Filter::any_state())
    }

    /// Creates an optimizer that trains the leaves of a model that `filter` accepts. The other leaves are frozen.
    ///
    /// Compute gradients with respect to the same leaves, with `.wrt(filter)`.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::Filter;
    /// use pytree_nn::{Activation, Mlp, Optimizer, Rngs, sgd};
    /// use pytree_transform::{DType, Tensor, value_and_grad};
    /// let mut model = Mlp::new(&[2, 3, 1], Activation::Tanh, &mut Rngs::new(0));
    /// let frozen = model.layers[0].clone();
    /// let last = Filter::path("layers[1]");
    /// let mut optimizer = Optimizer::with_filter(&model, sgd(0.1), &last);
    /// let x = Tensor::ones(DType::F32, [4, 2]);
    /// let (_, gradients) = value_and_grad(|model: &Mlp| model.forward(&x).mean()).wrt(last)(&model);
    /// optimizer.update(&mut model, &gradients);
    /// assert_eq!(model.layers[0], frozen);
    /// ```
    ///
    /// # Panics
    /// If the filter has an unknown path, accepts no leaf, or accepts a leaf that is not a float.
    #[panicking_twin(with_filter, NotFloat | Filter)]
    pub fn try_with_filter(
        model: &M,
        mut transformation: Chain,
        filter: &Filter,
    ) -> Result<Self, OptimizerError> {
        let (leaves, treedef) = graph::flatten::<Tensor, M>(model);
        let trained = filter
            .choose(&treedef, &leaves)
            .map_err(OptimizerError::Filter)?;
        let mut chosen = pairs(&leaves, &trained, LEAVES);
        let not_float = chosen.position(|(leaf, trained)| *trained && !leaf.dtype().is_float());
        if let Some(position) = not_float {
            return Err(OptimizerError::NotFloat {
                path: treedef.leaf_paths()[position].or_root(),
                found: leaves[position].info().clone(),
            });
        }
        let choices = pairs(&trained, treedef.leaf_kinds(), LEAVES);
        let choices = choices.map(|(trained, kind)| match kind {
            _ if *trained => Choice::Trained,
            Some(LeafKind::State(_)) => Choice::State,
            _ => Choice::LeftOut,
        });
        let parameters: Partition<M, Tensor> =
            partition::select(&treedef, &leaves, |position| trained[position]);
        transformation.init(parameters.tree());
        Ok(Self {
            step: Tensor::from(0_u32),
            transformation,
            choices: choices.collect(),
            missing_gradients: MissingGradients::default(),
            model: PhantomData,
        })
    }

    /// Sets what an update does with parameters that received no gradient. By default it is an error.
    ///
    /// Choose [`MissingGradients::Zero`] if the loss of a step depends on a part of the model only: for alternating
    /// heads, dropped layers or experts.
    ///
    /// # Examples
    /// ```
    /// use pytree_nn::{Linear, MissingGradients, Optimizer, Rngs, adam};
    /// use pytree_transform::{DType, Tensor, grad};
    /// let mut rngs = Rngs::new(0);
    /// let mut heads = [Linear::new(2, 1, &mut rngs), Linear::new(2, 1, &mut rngs)];
    /// let mut optimizer =
    ///     Optimizer::new(&heads, adam(0.1)).with_missing_gradients(MissingGradients::Zero);
    /// let x = Tensor::ones(DType::F32, [3, 2]);
    /// for step in 0..4 {
    ///     let loss = |heads: &[Linear; 2]| heads[step % 2].forward(&x).square().mean();
    ///     let gradient = grad(loss)(&heads);
    ///     optimizer.update(&mut heads, &gradient);
    /// }
    /// ```
    #[must_use]
    pub fn with_missing_gradients(mut self, missing: MissingGradients) -> Self {
        self.missing_gradients = missing;
        self
    }

    /// Returns the number of updates: `u32[]`.
    pub fn step(&self) -> &Tensor {
        &self.step
    }

    /// Returns the learning rate, `[]`, or `None` if the chain has no learning rate.
    pub fn learning_rate(&self) -> Option<&Tensor> {
        self.transformation.learning_rate()
    }

    /// Changes the learning rate. It is a leaf, so the change does not cause a retrace.
    ///
    /// # Examples
    /// ```
    /// use pytree_nn::{Linear, Optimizer, Rngs, sgd};
    /// let model = Linear::new(1, 1, &mut Rngs::new(0));
    /// let mut optimizer = Optimizer::new(&model, sgd(0.1));
    /// optimizer.set_learning_rate(0.05);
    /// assert_eq!(optimizer.learning_rate().map(|rate| rate.item::<f32>()), Some(0.05));
    /// ```
    ///
    /// # Panics
    /// If the chain has no learning rate, or if `rate` is not a single number.
    #[panicking_twin(set_learning_rate, NoLearningRate | LearningRate)]
    #[track_caller]
    pub fn try_set_learning_rate(&mut self, rate: impl Into<Tensor>) -> Result<(), OptimizerError> {
        let rate = rate.into();
        if rate.len() != 1 {
            return Err(OptimizerError::LearningRate {
                found: rate.info().clone(),
            });
        }
        let rate = rate.reshape([]);
        if self.transformation.set_learning_rate(&rate) {
            Ok(())
        } else {
            Err(OptimizerError::NoLearningRate)
        }
    }

    /// Applies gradients to the model.
    ///
    /// # Panics
    /// If a parameter received no gradient and [`MissingGradients::Zero`] is not set, if a frozen leaf received a
    /// gradient, if the shape of a gradient differs from its parameter, or if the model has another structure.
    ///
    /// # Errors
    /// Returns [`OptimizerError`] with every affected parameter, or with a conflict if another thread writes a
    /// reference of the model at the same time. In both cases neither the model nor the optimizer is changed.
    #[panicking_twin(update)]
    #[track_caller]
    pub fn try_update(
        &mut self,
        model: &mut M,
        gradients: &Gradient<M>,
    ) -> Result<(), OptimizerError>
    where
        M: SelectPart<Tensor>,
    {
        let (mut leaves, treedef, references) =
            boundary::flatten_with_references::<Tensor, M>(model);
        let choices = choices_now(&self.choices, &treedef)?;
        let (gradients, gradient_treedef) = graph::flatten::<Tensor, _>(gradients);
        let parameters: Partition<M, Tensor> = partition::select(&treedef, &leaves, |position| {
            choices[position] == Choice::Trained
        });
        let gradients = gradients_of(
            (&treedef, &choices),
            (parameters.tree().treedef(), parameters.leaves()),
            (&gradient_treedef, gradients),
            self.missing_gradients,
        )?;
        let others = self.transformation.other_parameters(parameters.leaves());
        if !others.is_empty() {
            let paths = parameters.tree().treedef().leaf_paths();
            let problems =
                others
                    .into_iter()
                    .map(|(position, expected)| GradientProblem::Parameter {
                        path: paths[position].clone(),
                        expected,
                        found: parameters.leaves()[position].info().clone(),
                    });
            return Err(OptimizerError::Gradients {
                problems: problems.collect(),
            });
        }
        // The optimizer is copied, because it must not change if writing the references of the model fails.
        let before = (!references.is_empty()).then(|| self.transformation.clone());
        let updates = self.transformation.update(gradients, parameters.leaves());
        let places = pairs(&mut leaves, &*choices, LEAVES)
            .filter(|(_, choice)| **choice == Choice::Trained)
            .map(|(leaf, _)| leaf);
        let places: Vec<&mut Tensor> = places.collect();
        for (leaf, update) in pairs(places, updates, "an update for each parameter") {
            *leaf = &*leaf + update;
        }
        let updated = boundary::unflatten_changed(&treedef, leaves, &references, |position| {
            choices[position] == Choice::Trained
        });
        match (updated, before) {
            (Ok(updated), _) => *model = updated,
            (Err(error), before) => {
                if let Some(before) = before {
                    self.transformation = before;
                }
                return Err(error.into());
            }
        }
        self.step = &self.step + 1;
        Ok(())
    }
}

impl<M> Clone for Optimizer<M> {
    fn clone(&self) -> Self {
        Self {
            step: self.step.clone(),
            transformation: self.transformation.clone(),
            choices: self.choices.clone(),
            missing_gradients: self.missing_gradients,
            model: PhantomData,
        }
    }
}

impl<M> fmt::Debug for Optimizer<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Optimizer")
            .field("step", &self.step)
            .field("transformation", &self.transformation)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::{
        Activation, Linear, Mlp, Rngs, adam, chain, clip_by_global_norm, eval, mse, scale_by_adam,
        sgd, train,
    };
    use pytree_core::{Freeze, Shared};
    use pytree_transform::{DType, jit, value_and_grad};

    fn mlp() -> Mlp {
        Mlp::new(&[2, 3, 1], Activation::Tanh, &mut Rngs::new(0))
    }

    fn ones() -> Tensor {
        Tensor::ones(DType::F32, [4, 2])
    }

    fn gradients(model: &Mlp) -> Partition<Mlp, Tensor> {
        value_and_grad(|model: &Mlp| model.forward(&ones()).mean())(model).1
    }

    #[test]
    fn every_parameter_without_gradient_is_named() {
        let mut model = mlp();
        let mut optimizer = Optimizer::new(&model, sgd(0.1));
        let first = |model: &Mlp| model.layers[0].forward(&ones()).mean();
        let gradients = value_and_grad(first)(&model).1;
        let before = model.clone();
        let error = optimizer.try_update(&mut model, &gradients).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot update the model:\n  layers[1].weight received no gradient\n  layers[1].bias received no gradient\n\
             the loss does not depend on a parameter without gradient, or `.wrt(filter)` left it out: use it, or freeze it with `Optimizer::with_filter(&model, …, &filter)`"
        );
        assert_eq!(model, before);
        assert_eq!(optimizer.step().item::<u32>(), 0);
    }

    #[test]
    fn gradient_for_frozen_leaf_is_named() {
        let mut model = mlp();
        let mut optimizer = Optimizer::with_filter(&model, sgd(0.1), &Filter::path("layers[1]"));
        let gradients = gradients(&model);
        let error = optimizer
            .try_update(&mut model, &gradients)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("layers[0].weight is frozen, but received a gradient"),
            "{error}"
        );
        assert!(error.contains(".wrt(filter)"), "{error}");
    }

    #[test]
    fn an_optimizer_of_nothing_is_refused() {
        let model = mlp();
        let misspelt = Filter::param() & Filter::path_contains("waight");
        let error = Optimizer::try_with_filter(&model, sgd(0.1), &misspelt).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot choose what to train: the filter (param & path_contains(waight)) selects no leaf: no path has a step `waight`; did you mean `weight`?"
        );
        assert_eq!(format!("{error:?}"), error.to_string());
        let frozen = Freeze::frozen(model);
        let all = Optimizer::try_with_filter(&frozen, sgd(0.1), &!Filter::any_state());
        assert!(
            all.unwrap_err()
                .to_string()
                .contains("selects no leaf; use a kind")
        );
    }

    #[test]
    #[should_panic(expected = "cannot choose what to differentiate by path_contains(waight)")]
    fn a_gradient_with_respect_to_nothing_panics() {
        let loss = |model: &Mlp| model.forward(&ones()).mean();
        let _ = value_and_grad(loss).wrt(Filter::path_contains("waight"))(&mlp());
    }

    #[test]
    fn later_freezing_or_thawing_is_reported() {
        let loss = |model: &(Freeze<Mlp>, Mlp)| {
            (model.0.forward(&ones()) + model.1.forward(&ones())).mean()
        };
        let mut model = (Freeze::frozen(mlp()), mlp());
        let mut optimizer = Optimizer::new(&model, sgd(0.1));
        let mut for_all = Optimizer::new(&(Freeze::new(mlp()), mlp()), sgd(0.1));
        let partly = value_and_grad(loss)(&model).1;
        let error = for_all
            .try_update(&mut model, &partly)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("layers[0].weight was a parameter when the optimizer was made, and is frozen, or a state, now"),
            "{error}"
        );
        assert!(error.contains("unfreeze again"), "{error}");
        model.0.unfreeze();
        let whole = value_and_grad(loss)(&model).1;
        let error = optimizer
            .try_update(&mut model, &whole)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("layers[0].weight was frozen, or a state, when the optimizer was made, and is a parameter now"),
            "{error}"
        );
        assert!(
            error.ends_with("make a new optimizer for the model as it is: `Optimizer::new(&model, …)`; or freeze again what was frozen"),
            "{error}"
        );
        for_all.update(&mut model, &whole);
    }

    #[test]
    fn frozen_leaves_need_no_gradient() {
        let mut model = mlp();
        let filter = Filter::path("layers[1]");
        let mut optimizer = Optimizer::with_filter(&model, adam(0.1), &filter);
        let before = model.clone();
        let gradients =
            value_and_grad(|model: &Mlp| model.forward(&ones()).mean()).wrt(filter)(&model).1;
        optimizer.update(&mut model, &gradients);
        assert_eq!(model.layers[0], before.layers[0]);
        assert_ne!(model.layers[1], before.layers[1]);
    }

    #[test]
    fn another_model_is_refused() {
        let mut optimizer = Optimizer::new(&mlp(), sgd(0.1));
        let mut other = Mlp::new(&[2, 1], Activation::Tanh, &mut Rngs::new(0));
        let gradients = gradients(&other);
        let error = optimizer.try_update(&mut other, &gradients).unwrap_err();
        assert_eq!(
            error,
            OptimizerError::OtherModel {
                expected: 4,
                found: 2
            }
        );
    }

    #[test]
    fn integer_parameter_is_refused() {
        let model = vec![Tensor::from([1.0_f32]), Tensor::from([1_i32])];
        let error =
            Optimizer::try_with_filter(&model, sgd(0.1), &Filter::everything()).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("cannot train [1]: expected f32 or f64, found i32[1]"),
            "{error}"
        );
    }

    #[test]
    fn a_chain_without_learning_rate_says_so() {
        let mut optimizer = Optimizer::new(&mlp(), scale_by_adam(0.9, 0.999, 1e-8));
        assert!(optimizer.learning_rate().is_none());
        assert_eq!(
            optimizer.try_set_learning_rate(0.1).unwrap_err(),
            OptimizerError::NoLearningRate
        );
    }

    #[test]
    fn a_learning_rate_is_one_number() {
        let mut optimizer = Optimizer::new(&mlp(), sgd(0.1));
        let error = optimizer.try_set_learning_rate(Tensor::from([0.1_f32, 0.2]));
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("expected one number, found f32[2]"),
            "{error}"
        );
        assert_eq!(optimizer.learning_rate(), Some(&Tensor::from(0.1_f32)));
        optimizer.set_learning_rate(Tensor::from([0.5_f32]));
        assert_eq!(optimizer.learning_rate(), Some(&Tensor::from(0.5_f32)));
    }

    #[test]
    fn the_activation_may_change_between_updates() {
        let mut model = mlp();
        let mut optimizer = Optimizer::new(&model, adam(0.1));
        let from_train = gradients(&train(&model));
        model.activation = Activation::Relu;
        optimizer.update(&mut model, &from_train);
        assert_eq!(optimizer.step().item::<u32>(), 1);
        assert_eq!(eval(&model), model);
    }

    #[test]
    fn a_new_learning_rate_compiles_nothing_anew() {
        let step = jit(|(mut model, mut optimizer): (Mlp, Optimizer<Mlp>)| {
            let gradients = gradients(&model);
            optimizer.update(&mut model, &gradients);
            (model, optimizer)
        });
        let mut model = mlp();
        let mut optimizer = Optimizer::new(&model, chain([clip_by_global_norm(1.0), adam(0.1)]));
        let (mut eager, mut eager_optimizer) = (model.clone(), optimizer.clone());
        for rate in [0.1, 0.05, 0.0] {
            optimizer.set_learning_rate(rate);
            (model, optimizer) = step((model, optimizer));
            eager_optimizer.set_learning_rate(rate);
            let gradients = gradients(&eager);
            eager_optimizer.update(&mut eager, &gradients);
        }
        assert_eq!(step.traces(), 1);
        let pairs = graph::leaves::<Tensor, _>(&model)
            .into_iter()
            .zip(graph::leaves::<Tensor, _>(&eager));
        for (compiled, eager) in pairs {
            for (compiled, eager) in compiled.to_vec::<f32>().iter().zip(eager.to_vec::<f32>()) {
                assert!(
                    (compiled - eager).abs() < 1e-6,
                    "compiled {compiled}, eager {eager}"
                );
            }
        }
    }

    #[test]
    fn tied_parameter_is_updated_once() {
        let shared = Shared::new(Linear::without_bias(2, 2, &mut Rngs::new(0)));
        let mut tied = vec![shared.clone(), shared.clone()];
        let mut optimizer = Optimizer::new(&tied, sgd(0.1));
        let loss = |tied: &Vec<Shared<Linear>>| tied[1].forward(&tied[0].forward(&ones())).mean();
        let gradients = value_and_grad(loss)(&tied).1;
        assert_eq!(gradients.len(), 1);
        optimizer.update(&mut tied, &gradients);
        assert!(tied[0].same(&tied[1]));
        assert_ne!(tied[0].weight, shared.weight);
    }

    #[test]
    fn tuples_and_tensors_are_models_too() {
        let mut pair = (Tensor::from([1.0_f32]), Tensor::from([2.0_f64]));
        let mut optimizer = Optimizer::new(&pair, sgd(0.5));
        let gradients = pair.clone();
        optimizer.update(&mut pair, &gradients);
        assert_eq!(pair, (Tensor::from([0.5_f32]), Tensor::from([1.0_f64])));
        let mut alone = Tensor::from([1.0_f32]);
        let mut optimizer = Optimizer::new(&alone, adam(0.5));
        let loss = |alone: &Tensor| mse(alone, &Tensor::from([0.0_f32]));
        let gradient = value_and_grad(loss)(&alone).1;
        optimizer.update(&mut alone, &gradient);
        assert!((alone.item::<f32>() - 0.5).abs() < 1e-5);
    }
}
