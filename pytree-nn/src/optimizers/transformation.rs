//! Gradient transformations, and chains of gradient transformations.

use std::borrow::Cow;

use pytree_base::bug::{bug, pairs};
use pytree_core::{Module, Tree, graph, module_object};
use pytree_transform::{AbstractArray, DType, Tensor};

use crate::convert_floats::{at_least_f32, at_least_f32_dtype};
use crate::hyperparameter::{Hyperparameter, NamedHyperparameter};
use crate::optimizers::error::OptimizerError;
use crate::schedules::Schedule;

/// A function that computes updates from gradients. The leaves of the implementing module are the state of the
/// function.
///
/// Implement this trait for your own module, and put the module into a [`Chain`] with [`Chain::of`].
///
/// # Examples
/// ```
/// use pytree_core::{Module, Tree};
/// use pytree_nn::{Chain, GradientTransformation, chain, sgd};
/// use pytree_transform::Tensor;
///
/// #[derive(Module, Clone, Debug)]
/// struct SignOnly;
///
/// impl GradientTransformation for SignOnly {
///     fn init(&mut self, _: &Tree<Tensor>) {}
///     fn update(&mut self, gradients: Vec<Tensor>, _: &[Tensor]) -> Vec<Tensor> {
///         gradients.iter().map(Tensor::sign).collect()
///     }
/// }
/// let sign_descent = chain([Chain::of(SignOnly), sgd(0.1)]);
/// assert_eq!(sign_descent.len(), 2);
/// ```
#[doc(alias = "optax.GradientTransformation")]
#[module_object]
pub trait GradientTransformation {
    /// Returns an error if the transformation cannot be used for the given parameters, for example because a filter
    /// accepts no parameter. An optimizer calls this method before [`init`](Self::init). The default implementation
    /// returns no error.
    ///
    /// # Errors
    /// Returns the reason. The function that creates the optimizer returns the same error.
    fn check(&self, parameters: &Tree<Tensor>) -> Result<(), OptimizerError> {
        let _ = parameters;
        Ok(())
    }

    /// Creates the state of the transformation for the given parameters. An optimizer calls this method once, before
    /// the first update.
    fn init(&mut self, parameters: &Tree<Tensor>);

    /// Returns the updates for the gradients. The transformations of a chain run in order: the first transformation
    /// receives the gradients, and each further transformation receives the updates of the previous transformation. The
    /// updates of the last transformation are added to the parameters.
    ///
    /// Gradients, parameters and updates are in the order of the parameters in [`init`](Self::init). A chain converts
    /// half-precision parameters and gradients to f32 before it passes them to a transformation, so the states of a
    /// transformation are never in half precision.
    ///
    /// # Panics
    /// A chain panics if a transformation returns a number of updates that differs from the number of gradients. The
    /// transformations of this crate panic if the number of gradients differs from the number of parameters.
    fn update(&mut self, gradients: Vec<Tensor>, parameters: &[Tensor]) -> Vec<Tensor>;

    /// Returns the positions of the parameters whose shape or dtype has changed since [`init`](Self::init), each with
    /// the expected shape and dtype. The default implementation returns no positions. Implement this method if the
    /// transformation has a state for each parameter. An update with changed shapes then fails before the model or the
    /// optimizer is changed.
    fn other_parameters(&self, parameters: &[Tensor]) -> Vec<(usize, AbstractArray)> {
        let _ = parameters;
        Vec::new()
    }

    /// Returns the learning rate of the next update as a scalar, or `None` if this transformation has no learning rate.
    /// The default implementation returns `None`.
    fn learning_rate(&self) -> Option<Tensor> {
        None
    }

    /// Returns the hyper-parameters that can be replaced, such as the betas of Adam. The default implementation returns an
    /// empty list.
    fn hyperparameters(&mut self) -> Vec<NamedHyperparameter<'_>> {
        Vec::new()
    }

    /// Changes the learning rate, and returns whether this transformation has a learning rate. The default
    /// implementation returns `false`.
    fn set_learning_rate(&mut self, rate: &Schedule) -> bool {
        let _ = rate;
        false
    }
}

/// A sequence of gradient transformations.
///
/// A chain computes in f32 if parameters and gradients are half-precision floats: its transformations receive f32 tensors,
/// their states are f32, and the updates are f32. [`Optimizer`](crate::Optimizer) adds an update in f32, and rounds the
/// sum once. So moments and other running means do not lose small steps.
#[derive(Module, Clone, Debug)]
pub struct Chain {
    steps: Vec<Box<dyn GradientTransformation>>,
}

impl Chain {
    /// Returns a chain of a single transformation.
    ///
    /// # Examples
    /// A transformation with a state for each parameter, which divides the gradients by the largest so far:
    /// ```
    /// use pytree_core::kind::OptState;
    /// use pytree_core::{Module, Tree};
    /// use pytree_nn::{Chain, GradientTransformation, Optimizer, chain, sgd};
    /// use pytree_transform::{Tensor, grad};
    ///
    /// #[derive(Module, Clone, Debug)]
    /// struct ByLargest {
    ///     #[state(OptState)]
    ///     largest: Vec<Tensor>,
    /// }
    ///
    /// impl GradientTransformation for ByLargest {
    ///     fn init(&mut self, parameters: &Tree<Tensor>) {
    ///         self.largest = parameters.leaves().iter().map(Tensor::zeros_like).collect();
    ///     }
    ///     fn update(&mut self, gradients: Vec<Tensor>, _: &[Tensor]) -> Vec<Tensor> {
    ///         let states = self.largest.iter_mut().zip(gradients);
    ///         let updates = states.map(|(largest, gradient)| {
    ///             *largest = largest.maximum(gradient.abs());
    ///             gradient / &*largest
    ///         });
    ///         updates.collect()
    ///     }
    /// }
    ///
    /// #[derive(Module, Clone, Debug)]
    /// struct Point {
    ///     #[param]
    ///     at: Tensor,
    /// }
    /// let mut point = Point { at: Tensor::from([1.0_f32, 2.0]) };
    /// let steps = chain([Chain::of(ByLargest { largest: Vec::new() }), sgd(0.5)]);
    /// let mut optimizer = Optimizer::new(&point, steps);
    /// let gradient = grad(|point: &Point| (&point.at * Tensor::from([8.0_f32, -3.0])).sum())(&point);
    /// optimizer.update(&mut point, &gradient);
    /// assert_eq!(point.at.to_vec::<f32>(), [0.5, 2.5]);
    /// ```
    pub fn of(transformation: impl GradientTransformation + 'static) -> Self {
        Self {
            steps: vec![Box::new(transformation)],
        }
    }

    /// Returns the number of transformations.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Returns the chain with a hyper-parameter replaced by a number or a scalar tensor, like `optax.inject_hyperparams`.
    /// A tensor is a leaf of the optimizer, so `vmap` can sweep it, and a compiled update does not retrace for a new
    /// value. If several transformations have a hyper-parameter of this name, all of them are set.
    ///
    /// These transformations have hyper-parameters: Adam with `beta1`, `beta2`, `epsilon` and `epsilon_root`; Lion with
    /// `beta1` and `beta2`; [`trace`](crate::trace), [`sgd_momentum`](crate::sgd_momentum) and [`ema`](crate::ema) with
    /// `decay`; [`clip_by_global_norm`](crate::clip_by_global_norm) with `longest`. A learning rate and a weight decay
    /// may be tensors from the beginning: see [`Schedule`].
    ///
    /// # Examples
    /// ```
    /// use pytree_nn::{Optimizer, adam};
    /// use pytree_transform::{Tensor, grad, vmap};
    /// // Trains once for each β₁.
    /// let train = vmap(|beta1: Tensor| {
    ///     let mut x = Tensor::from(1.0_f32);
    ///     let mut optimizer = Optimizer::new(&x, adam(0.1).with_hyperparameter("beta1", beta1));
    ///     for _ in 0..3 {
    ///         let gradient = grad(|x: &Tensor| x.square())(&x);
    ///         optimizer.update(&mut x, &gradient);
    ///     }
    ///     x
    /// });
    /// let found = train(Tensor::from([0.0_f32, 0.9])).to_vec::<f32>();
    /// assert!(found[0] != found[1]);
    /// ```
    ///
    /// # Panics
    /// If no transformation of the chain has a hyper-parameter of this name, if the value is a tensor that is not a scalar
    /// of floats, or if it is known and out of range.
    #[must_use]
    #[track_caller]
    pub fn with_hyperparameter(mut self, name: &str, value: impl Into<Hyperparameter>) -> Self {
        match self.try_set_hyperparameter(name, &value.into()) {
            Ok(()) => self,
            Err(error) => panic!("{error}"),
        }
    }

    /// Replaces a hyper-parameter: see [`with_hyperparameter`](Self::with_hyperparameter).
    ///
    /// # Errors
    /// Returns [`OptimizerError::Hyperparameter`]. The chain is then unchanged.
    pub(super) fn try_set_hyperparameter(
        &mut self,
        name: &str,
        value: &Hyperparameter,
    ) -> Result<(), OptimizerError> {
        let all = self.hyperparameters();
        let error = |expected: String, found: String| OptimizerError::Hyperparameter {
            name: name.to_owned(),
            expected,
            found,
        };
        if !all.iter().any(|own| own.name == name) {
            let mut names: Vec<&str> = all.iter().map(|own| own.name).collect();
            names.sort_unstable();
            names.dedup();
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            return Err(error(
                format!(
                    "one of the hyper-parameters of the chain ({})",
                    names.join(", ")
                ),
                format!("`{name}`"),
            ));
        }
        if let Hyperparameter::Tensor(tensor) = value
            && (tensor.rank() > 0 || !tensor.dtype().is_float())
        {
            let expected = "a number or a scalar of floats".to_owned();
            return Err(error(expected, tensor.info().to_string()));
        }
        let known = value.known();
        let all: Vec<_> = all.into_iter().filter(|own| own.name == name).collect();
        for own in &all {
            if let Some(known) = known.filter(|known| !own.allowed.contains(known)) {
                let (least, most) = (own.allowed.start(), own.allowed.end());
                let expected = format!("a number from {least:?} to {most:?}");
                return Err(error(expected, known.to_string()));
            }
        }
        for own in all {
            *own.value = value.clone();
        }
        Ok(())
    }

    /// Returns whether the chain has no transformations. An empty chain returns the gradients as updates.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

impl GradientTransformation for Chain {
    fn check(&self, parameters: &Tree<Tensor>) -> Result<(), OptimizerError> {
        self.steps
            .iter()
            .try_for_each(|step| step.check(parameters))
    }

    fn init(&mut self, parameters: &Tree<Tensor>) {
        let parameters = parameters.map(at_least_f32);
        for step in &mut self.steps {
            step.init(&parameters);
        }
    }

    #[track_caller]
    fn update(&mut self, gradients: Vec<Tensor>, parameters: &[Tensor]) -> Vec<Tensor> {
        let expected = gradients.len();
        let parameters = wide(parameters);
        let mut updates = wide(&gradients).into_owned();
        // No closure is used here, because a panic in a closure would not report the caller's line.
        for step in &mut self.steps {
            updates = step.update(updates, &parameters);
            assert!(
                updates.len() == expected,
                "cannot update: a transformation of the chain received {expected} gradients and returned {} updates; return one update for each gradient",
                updates.len()
            );
        }
        updates
    }

    fn other_parameters(&self, parameters: &[Tensor]) -> Vec<(usize, AbstractArray)> {
        let parameters = wide(parameters);
        let mut differing = self
            .steps
            .iter()
            .map(|step| step.other_parameters(&parameters));
        differing
            .find(|found| !found.is_empty())
            .unwrap_or_default()
    }

    fn learning_rate(&self) -> Option<Tensor> {
        self.steps.iter().find_map(|step| step.learning_rate())
    }

    fn hyperparameters(&mut self) -> Vec<NamedHyperparameter<'_>> {
        let steps = self.steps.iter_mut();
        steps.flat_map(|step| step.hyperparameters()).collect()
    }

    fn set_learning_rate(&mut self, rate: &Schedule) -> bool {
        self.steps
            .iter_mut()
            .any(|step| step.set_learning_rate(rate))
    }
}

/// Concatenates chains: the updates of each chain are the gradients of the next chain.
///
/// # Examples
/// ```
/// use pytree_nn::{adam, chain, clip_by_global_norm};
/// let clipped = chain([clip_by_global_norm(1.0), adam(1e-3)]);
/// assert_eq!(clipped.len(), 3);
/// ```
#[doc(alias = "optax.chain")]
pub fn chain(chains: impl IntoIterator<Item = Chain>) -> Chain {
    Chain {
        steps: chains.into_iter().flat_map(|chain| chain.steps).collect(),
    }
}

/// Returns the tensors with half-precision floats converted to f32.
fn wide(tensors: &[Tensor]) -> Cow<'_, [Tensor]> {
    if tensors
        .iter()
        .all(|tensor| at_least_f32_dtype(tensor.dtype()) == tensor.dtype())
    {
        return Cow::Borrowed(tensors);
    }
    tensors.iter().map(at_least_f32).collect()
}

/// A tensor without axes that is converted to each needed dtype only once.
pub(super) struct Scalar {
    value: Tensor,
    converted: Vec<Tensor>,
}

impl Scalar {
    pub(super) fn new(value: Tensor) -> Self {
        Self {
            value,
            converted: Vec::new(),
        }
    }

    /// Returns the tensor converted to `dtype`.
    pub(super) fn of_type(&mut self, dtype: DType) -> Tensor {
        if let Some(found) = self.converted.iter().find(|tensor| tensor.dtype() == dtype) {
            return found.clone();
        }
        let converted = self.value.convert(dtype);
        self.converted.push(converted.clone());
        converted
    }
}

/// Keeps the states of `chain` if `is_kept` is true, and otherwise restores the states of `before`.
pub(super) fn keep_states_where(is_kept: &Tensor, chain: &mut Chain, before: &Chain) {
    let (leaves, treedef) = graph::flatten::<Tensor, Chain>(chain);
    let (before, _) = graph::flatten::<Tensor, Chain>(before);
    let states = pairs(&leaves, &before, "the states before an update");
    let states = states.map(|(new, old)| is_kept.select(new, old)).collect();
    *chain = graph::unflatten(&treedef, states)
        .unwrap_or_else(|_| bug("a chain has the structure that it was flattened with"));
}

/// Panics if the number of gradients differs from the number of states or parameters. Without this check, gradients
/// would be matched to the wrong parameters.
pub(super) fn check_number(what: &str, expected: usize, gradients: usize) {
    assert!(
        gradients == expected,
        "cannot update: expected {expected} gradients, one for each of the {what}, found {gradients}; pass the gradients of the parameters with which the transformation was initialized, in the same order"
    );
}

/// Returns the position of each parameter whose shape or dtype differs from its state, and the dtype and shape of the
/// state.
pub(super) fn differing(states: &[Tensor], parameters: &[Tensor]) -> Vec<(usize, AbstractArray)> {
    check_number("states", states.len(), parameters.len());
    let pairs = states.iter().zip(parameters).enumerate();
    pairs
        .filter(|(_, (state, parameter))| state.info() != parameter.info())
        .map(|(position, (state, _))| (position, state.info().clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Momentum, adam, add_decayed_weights, sgd, trace};

    /// A transformation that returns no update for the last gradient.
    #[derive(Module, Clone, Debug)]
    struct Forgetful;

    impl GradientTransformation for Forgetful {
        fn init(&mut self, _: &Tree<Tensor>) {}
        fn update(&mut self, mut gradients: Vec<Tensor>, _: &[Tensor]) -> Vec<Tensor> {
            gradients.pop();
            gradients
        }
    }

    fn numbers(count: usize) -> Vec<Tensor> {
        (0..count)
            .map(|number| Tensor::from(number as f32))
            .collect()
    }

    #[test]
    #[should_panic(
        expected = "received 3 gradients and returned 2 updates; return one update for each gradient"
    )]
    fn missing_update_is_refused() {
        let mut both = chain([Chain::of(Forgetful), sgd(0.1)]);
        both.update(numbers(3), &numbers(3));
    }

    #[test]
    fn number_of_gradients_is_that_of_parameters() {
        for mut made in [
            adam(0.1),
            trace(0.9, Momentum::Classical),
            add_decayed_weights(0.1),
        ] {
            made.init(&Tree::from_value(&numbers(3)));
            let run = || made.update(numbers(2), &numbers(3));
            let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).unwrap_err();
            let text = panic.downcast_ref::<String>().unwrap();
            assert!(
                text.starts_with("cannot update: expected 3 gradients, one for each of the"),
                "{text}"
            );
        }
    }
}
