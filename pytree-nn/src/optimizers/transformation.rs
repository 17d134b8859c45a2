//! What a gradient transformation is, and chains of them.

use pytree_core::{Module, Tree, module_object};
use pytree_transform::{AbstractArray, DType, Tensor};

/// A step from gradients to updates, with its state in leaves.
///
/// Implement it for a module of your own and put it into a [`Chain`] with [`Chain::of`].
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
#[module_object]
pub trait GradientTransformation {
    /// Makes the state for these parameters; called once, before the first update.
    fn init(&mut self, parameters: &Tree<Tensor>);

    /// The updates from the gradients, or from the updates of the transformation before; both and the
    /// parameters in the order of [`init`](Self::init).
    ///
    /// The last updates of a chain are added to the parameters.
    ///
    /// # Panics
    /// A chain panics if one of its transformations gives more or fewer updates than it was given gradients, and the
    /// transformations of this crate panic if these are not as many as the parameters.
    fn update(&mut self, gradients: Vec<Tensor>, parameters: &[Tensor]) -> Vec<Tensor>;

    /// The parameters, by position, that differ in shape or element type from those that the states were
    /// made for, with what was expected; none by default. A transformation with a state for each parameter
    /// tells here, so that a model of other shapes is an error before anything is changed.
    fn other_parameters(&self, parameters: &[Tensor]) -> Vec<(usize, AbstractArray)> {
        let _ = parameters;
        Vec::new()
    }

    /// The learning rate, if this is where it is kept: `[]`.
    fn learning_rate(&self) -> Option<&Tensor> {
        None
    }

    /// Changes the learning rate; tells whether this is where it is kept.
    fn set_learning_rate(&mut self, rate: &Tensor) -> bool {
        let _ = rate;
        false
    }
}

/// Gradient transformations one after the other.
#[derive(Module, Clone, Debug)]
pub struct Chain {
    steps: Vec<Box<dyn GradientTransformation>>,
}

impl Chain {
    /// A chain of a single transformation.
    pub fn of(transformation: impl GradientTransformation + 'static) -> Self {
        Self {
            steps: vec![Box::new(transformation)],
        }
    }

    /// The number of transformations.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether there are no transformations, so that gradients are added as they are.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

impl GradientTransformation for Chain {
    fn init(&mut self, parameters: &Tree<Tensor>) {
        for step in &mut self.steps {
            step.init(parameters);
        }
    }

    fn update(&mut self, gradients: Vec<Tensor>, parameters: &[Tensor]) -> Vec<Tensor> {
        let expected = gradients.len();
        self.steps.iter_mut().fold(gradients, |gradients, step| {
            let updates = step.update(gradients, parameters);
            assert!(
                updates.len() == expected,
                "cannot update: a transformation of the chain was given {expected} gradients and gave {} updates; give one for each",
                updates.len()
            );
            updates
        })
    }

    fn other_parameters(&self, parameters: &[Tensor]) -> Vec<(usize, AbstractArray)> {
        let mut differing = self
            .steps
            .iter()
            .map(|step| step.other_parameters(parameters));
        differing
            .find(|found| !found.is_empty())
            .unwrap_or_default()
    }

    fn learning_rate(&self) -> Option<&Tensor> {
        self.steps.iter().find_map(|step| step.learning_rate())
    }

    fn set_learning_rate(&mut self, rate: &Tensor) -> bool {
        self.steps
            .iter_mut()
            .any(|step| step.set_learning_rate(rate))
    }
}

/// Chains one after the other: the updates of each are the gradients of the next.
///
/// # Examples
/// ```
/// use pytree_nn::{adam, chain, clip_by_global_norm};
/// let clipped = chain([clip_by_global_norm(1.0), adam(1e-3)]);
/// assert_eq!(clipped.len(), 3);
/// ```
pub fn chain(chains: impl IntoIterator<Item = Chain>) -> Chain {
    Chain {
        steps: chains.into_iter().flat_map(|chain| chain.steps).collect(),
    }
}

/// A number without axes, converted once for each element type it is needed in.
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

    /// The number as an element of the given type.
    pub(super) fn of_type(&mut self, dtype: DType) -> Tensor {
        if let Some(found) = self.converted.iter().find(|tensor| tensor.dtype() == dtype) {
            return found.clone();
        }
        let converted = self.value.convert(dtype);
        self.converted.push(converted.clone());
        converted
    }
}

/// Panics if there are not as many gradients as states or parameters: those behind would be taken for others.
pub(super) fn check_number(what: &str, expected: usize, gradients: usize) {
    assert!(
        gradients == expected,
        "cannot update: expected a gradient for each of {expected} {what}, found {gradients}; give the gradients of the parameters that the transformation was made for, in their order"
    );
}

/// The parameters whose shape or element type is not that of their state.
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
    use crate::{adam, add_decayed_weights, sgd, trace};

    /// Gives no update for the last gradient.
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
    #[should_panic(expected = "was given 3 gradients and gave 2 updates; give one for each")]
    fn missing_update_is_refused() {
        let mut both = chain([Chain::of(Forgetful), sgd(0.1)]);
        both.update(numbers(3), &numbers(3));
    }

    #[test]
    fn number_of_gradients_is_that_of_parameters() {
        for mut made in [adam(0.1), trace(0.9, false), add_decayed_weights(0.1)] {
            made.init(&Tree::from_value(&numbers(3)));
            let run = || made.update(numbers(2), &numbers(3));
            let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).unwrap_err();
            let text = panic.downcast_ref::<String>().unwrap();
            assert!(
                text.starts_with("cannot update: expected a gradient for each of 3"),
                "{text}"
            );
        }
    }
}
