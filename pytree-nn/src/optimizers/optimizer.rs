//! The optimizer, which applies a chain of transformations to the trained leaves of a model.
//!
//! The trained leaves are chosen when the optimizer is created. The choice is static, so an update does not apply the
//! filter again. All other data of an optimizer are leaves, so an optimizer can be an argument and a result of `jit`,
//! and can be saved in a checkpoint.

mod choices;

pub use self::choices::MissingGradients;

use std::fmt;
use std::marker::PhantomData;

use pytree_base::bug::{LEAVES, pairs};
use pytree_core::{
    Filter, LeafKind, Partition, PytreeOf, SelectPart, axes, boundary, graph, partition,
};
use pytree_derive::panicking_twin;
use pytree_transform::Gradient;
use pytree_transform::extend::warn_of_debug_build;

use self::choices::{Choice, choices_now, gradients_of};
use crate::convert_floats::at_least_f32;
use crate::optimizers::error::{GradientProblem, OptimizerError};
use crate::optimizers::prelude::*;
use crate::optimizers::ranges::known_number;
use crate::optimizers::scheduled::Scheduled;

/// Applies gradients to the parameters of a model of type `M`.
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
#[doc(alias("nnx.Optimizer", "torch.optim.Optimizer"))]
#[derive(Module)]
pub struct Optimizer<M: 'static> {
    /// The number of updates: `u32[]`.
    #[state(OptState)]
    step: Tensor,
    transformation: Chain,
    /// For each leaf of the model in graph order, whether the leaf is trained, or why it is not trained.
    #[r#static]
    choices: Vec<Choice>,
    #[r#static]
    missing_gradients: MissingGradients,
    model: PhantomData<fn() -> M>,
}

impl<M: PytreeOf<Tensor>> Optimizer<M> {
    /// Creates an optimizer that trains all leaves of a model that are not states: its parameters, and its leaves
    /// without a kind.
    ///
    /// # Panics
    /// If the model has no such leaf, for example because all parameters are frozen, if such a leaf is not a float, if
    /// the transformation cannot be used for the parameters, or if an array of the model does not match the named axes
    /// of its module. [`check_any_stack`](pytree_core::axes::check_any_stack) checks the named axes.
    ///
    /// See [`try_with_filter`](Self::try_with_filter) for a fallible version.
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
    /// If the filter has an unknown path, accepts no leaf, or accepts a leaf that is not a float, if the transformation
    /// cannot be used for the accepted leaves, or if an array of the model does not match the named axes of its module.
    #[panicking_twin(with_filter, NotFloat | State | Filter | Shapes)]
    pub fn try_with_filter(
        model: &M,
        mut transformation: Chain,
        filter: &Filter,
    ) -> Result<Self, OptimizerError> {
        let (leaves, treedef) = graph::try_flatten::<Tensor, M>(model)?;
        axes::check_any_stack(model).map_err(OptimizerError::Shapes)?;
        let trained = filter
            .choose(&treedef, &leaves)
            .map_err(OptimizerError::Filter)?;
        let mut chosen = pairs(&leaves, &trained, LEAVES);
        let not_float = chosen.position(|(leaf, trained)| *trained && !leaf.dtype().is_float());
        if let Some(position) = not_float {
            let path = treedef.leaf_paths()[position].or_root();
            let found = leaves[position].info().clone();
            return Err(match treedef.leaf_kinds()[position] {
                Some(LeafKind::State(_)) => OptimizerError::State { path, found },
                _ => OptimizerError::NotFloat { path, found },
            });
        }
        let choices = pairs(&trained, treedef.leaf_kinds(), LEAVES);
        let choices = choices.map(|(trained, kind)| match kind {
            _ if *trained => Choice::Trained,
            Some(LeafKind::State(_)) => Choice::State,
            _ => Choice::LeftOut,
        });
        let parameters: Partition<M, Tensor> =
            partition::select(&treedef.as_whole(), &leaves, |position| trained[position]);
        transformation.check(parameters.tree())?;
        transformation.init(parameters.tree());
        Ok(Self {
            step: Tensor::from(0_u32),
            transformation,
            choices: choices.collect(),
            missing_gradients: MissingGradients::default(),
            model: PhantomData,
        })
    }

    /// Sets what an update does with parameters that received no gradient. By default, such an update is an error.
    ///
    /// Choose [`MissingGradients::Zero`] if the loss of a step depends only on a part of the model, as with alternating
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

    /// Returns the learning rate of the next update, a scalar, or `None` if the chain has no learning rate of its own. With
    /// [`groups`](crate::groups) it is `None`, because each group has a rate.
    ///
    /// The rate is a state, so a checkpoint stores it, and a loaded rate replaces the one in the code. Call
    /// [`set_learning_rate`](Self::set_learning_rate) after the load to continue with another rate.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::Filter;
    /// use pytree_nn::{Linear, Optimizer, Rngs, adam, groups, sgd};
    /// let model = Linear::new(1, 1, &mut Rngs::new(0));
    /// let optimizer = Optimizer::new(&model, adam(0.5));
    /// assert_eq!(optimizer.learning_rate().map(|rate| rate.item::<f32>()), Some(0.5));
    ///
    /// let biases = (Filter::path("bias"), sgd(0.1));
    /// let grouped = groups([biases, (Filter::everything(), adam(0.5))]);
    /// assert!(Optimizer::new(&model, grouped).learning_rate().is_none());
    /// ```
    pub fn learning_rate(&self) -> Option<Tensor> {
        self.transformation.learning_rate()
    }

    /// Changes the learning rate to a number or a schedule. The numbers are leaves, so a retrace is not needed for a
    /// new number, or for a schedule of the same kind with new numbers. If the old and the new rate are schedules, the
    /// count continues.
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
    /// If the chain has no learning rate, if `rate` is a tensor that does not have exactly one element, or if `rate` is NaN
    /// or infinite.
    #[doc(alias = "optax.inject_hyperparams")]
    #[panicking_twin(set_learning_rate, NoLearningRate | LearningRate | InfiniteRate)]
    pub fn try_set_learning_rate(
        &mut self,
        rate: impl Into<Schedule>,
    ) -> Result<(), OptimizerError> {
        let rate = rate.into();
        Scheduled::new(rate.clone()).check()?;
        if let Some(found) = known_number(&rate).filter(|rate| !rate.is_finite()) {
            return Err(OptimizerError::InfiniteRate {
                found: found.to_string(),
            });
        }
        if self.transformation.set_learning_rate(&rate) {
            Ok(())
        } else {
            Err(OptimizerError::NoLearningRate)
        }
    }

    /// Replaces a hyper-parameter of the chain by a number or a scalar tensor, for example to schedule a β. See
    /// [`Chain::with_hyperparameter`] for the names. A new tensor needs no retrace, and a new number needs one.
    ///
    /// # Examples
    /// ```
    /// use pytree_nn::{Linear, Optimizer, Rngs, adam};
    /// use pytree_transform::Tensor;
    /// let model = Linear::new(1, 1, &mut Rngs::new(0));
    /// let mut optimizer = Optimizer::new(&model, adam(0.1));
    /// optimizer.set_hyperparameter("beta1", Tensor::from(0.8));
    /// let error = optimizer.try_set_hyperparameter("beta", 0.8).unwrap_err();
    /// assert!(error.to_string().contains("`beta1`"));
    /// ```
    ///
    /// # Panics
    /// If no transformation of the chain has a hyper-parameter of this name, if the value is a tensor that is not a scalar
    /// of floats, or if it is known and out of range.
    #[panicking_twin(set_hyperparameter, Hyperparameter)]
    pub fn try_set_hyperparameter(
        &mut self,
        name: &str,
        value: impl Into<Hyperparameter>,
    ) -> Result<(), OptimizerError> {
        self.transformation
            .try_set_hyperparameter(name, &value.into())
    }

    /// Applies gradients to the model.
    ///
    /// The states of the optimizer are never in half precision: see [`Chain`]. An update is added to a half-precision
    /// parameter in f32, and the sum is rounded. An update below half of the parameter's last digit therefore does not
    /// change the parameter: keep parameters in f32, and compute the forward pass with
    /// [`MixedPrecision`](crate::MixedPrecision). A gradient of a half-precision parameter may be f32, as
    /// [`LossScale::unscaled`](crate::LossScale::unscaled) returns it.
    ///
    /// # Panics
    /// If a parameter received no gradient and [`MissingGradients::Zero`] is not set, if a frozen leaf received a
    /// gradient, if the shape or the dtype of a gradient differs from its parameter, or if the structure of the model
    /// has changed since the optimizer was created.
    ///
    /// # Errors
    /// Returns [`OptimizerError`] with every affected parameter. Also returns an error if another thread writes a
    /// reference of the model at the same time. After an error, the model and the optimizer are unchanged.
    #[doc(alias(
        "nnx.Optimizer.update",
        "torch.optim.Optimizer.step",
        "optax.apply_updates"
    ))]
    #[panicking_twin(update)]
    pub fn try_update(
        &mut self,
        model: &mut M,
        gradients: &Gradient<M>,
    ) -> Result<(), OptimizerError>
    where
        M: SelectPart<Tensor>,
    {
        warn_of_debug_build();
        let (mut leaves, treedef, references) =
            boundary::try_flatten_with_references::<Tensor, M>(model)?;
        let choices = choices_now(&self.choices, &treedef)?;
        let (gradients, gradient_treedef) = graph::flatten::<Tensor, _>(gradients);
        let is_trained = |position: usize| choices[position] == Choice::Trained;
        let parameters: Partition<M, Tensor> =
            partition::select(&treedef.as_whole(), &leaves, is_trained);
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
        // The chain is copied, because the optimizer must not change if writing the references of the model fails.
        let before = (!references.is_empty()).then(|| self.transformation.clone());
        let updates = self.transformation.update(gradients, parameters.leaves());
        let places = pairs(&mut leaves, &*choices, LEAVES)
            .filter(|(_, choice)| **choice == Choice::Trained)
            .map(|(leaf, _)| leaf);
        let places: Vec<&mut Tensor> = places.collect();
        for (leaf, update) in pairs(places, updates, "an update for each parameter") {
            let dtype = leaf.dtype();
            *leaf = (at_least_f32(leaf) + at_least_f32(&update)).convert(dtype);
        }
        let updated = boundary::unflatten_changed(&treedef, leaves, &references, is_trained);
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

impl<M> PartialEq for Optimizer<M> {
    /// Returns whether two optimizers have the same transformations, settings and states.
    ///
    /// # Panics
    /// If the optimizers have the same structure and a state is traced, for example under `jit` and `vmap`. The
    /// comparison of traced tensors panics in the same way.
    #[track_caller]
    fn eq(&self, other: &Self) -> bool {
        graph::flatten::<Tensor, Self>(self) == graph::flatten::<Tensor, Self>(other)
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
mod tests;
