//! Chains for groups of parameters, and chains for a part of the parameters.

use pytree_core::{Filter, KeyPath, Module, Tree};
use pytree_transform::{AbstractArray, Tensor};

use crate::hyperparameter::NamedHyperparameter;
use crate::optimizers::error::OptimizerError;
use crate::optimizers::selection::Selection;
use crate::optimizers::transformation::{Chain, GradientTransformation, check_number};

/// Applies a chain to the selected parameters.
#[derive(Module, Clone, Debug)]
struct Masked {
    inner: Chain,
    #[r#static]
    selection: Selection,
}

/// Returns a chain that applies `inner` to the parameters that `filter` accepts, like `optax.masked`. The gradients of
/// the other parameters do not change.
///
/// # Examples
/// ```
/// use pytree_core::Filter;
/// use pytree_nn::{adam, add_decayed_weights, chain, masked};
/// let decay = masked(Filter::path_contains("weight"), add_decayed_weights(1e-4));
/// let decayed = chain([decay, adam(1e-3)]);
/// ```
#[doc(alias = "optax.masked")]
pub fn masked(filter: Filter, inner: Chain) -> Chain {
    Chain::of(Masked {
        inner,
        selection: Selection::By(filter),
    })
}

impl GradientTransformation for Masked {
    fn check(&self, parameters: &Tree<Tensor>) -> Result<(), OptimizerError> {
        let mut selection = Selection::Flags(self.selection.choose(parameters)?);
        selection.init(parameters);
        self.inner.check(&selection.part(parameters))
    }

    fn init(&mut self, parameters: &Tree<Tensor>) {
        self.selection.init(parameters);
        self.inner.init(&self.selection.part(parameters));
    }

    fn other_parameters(&self, parameters: &[Tensor]) -> Vec<(usize, AbstractArray)> {
        let positions = self.selection.positions(parameters.len());
        let others = self.inner.other_parameters(&self.selection.of(parameters));
        let others = others.into_iter();
        others
            .map(|(position, expected)| (positions[position], expected))
            .collect()
    }

    fn update(&mut self, mut gradients: Vec<Tensor>, parameters: &[Tensor]) -> Vec<Tensor> {
        check_number("parameters", parameters.len(), gradients.len());
        let own = self.selection.of(&gradients);
        let updates = self.inner.update(own, &self.selection.of(parameters));
        self.selection.put(&mut gradients, updates);
        gradients
    }

    fn hyperparameters(&mut self) -> Vec<NamedHyperparameter<'_>> {
        self.inner.hyperparameters()
    }
}

/// Chains for disjoint parameters.
#[derive(Module, Clone, Debug)]
struct Groups {
    groups: Vec<Masked>,
}

/// Returns a chain that applies to each parameter the chain of the first filter that accepts the parameter, like
/// `optax.multi_transform`.
///
/// Each group has its own states, counts and learning rate. The function that creates the optimizer returns an error if
/// a parameter has no group, or if a group has no parameter. To freeze a group, use [`set_to_zero`].
///
/// # Examples
/// ```
/// use pytree_core::Filter;
/// use pytree_nn::{Activation, Mlp, Optimizer, Rngs, Schedule, adam, groups, sgd};
/// let model = Mlp::new(&[2, 8, 1], Activation::Tanh, &mut Rngs::new(0));
/// let both = groups([
///     (Filter::path("layers[0]"), sgd(1e-3)),
///     (Filter::everything(), adam(Schedule::cosine(1e-2, 1000))),
/// ]);
/// let optimizer = Optimizer::new(&model, both);
/// ```
#[doc(alias("optax.multi_transform", "optax.partition"))]
pub fn groups(groups: impl IntoIterator<Item = (Filter, Chain)>) -> Chain {
    let groups = groups.into_iter().map(|(filter, inner)| Masked {
        inner,
        selection: Selection::By(filter),
    });
    Chain::of(Groups {
        groups: groups.collect(),
    })
}

/// Returns a chain like [`groups`], but the chain of a parameter is chosen by a label. `label` returns the label for
/// the path of a parameter.
///
/// # Examples
/// ```
/// use pytree_nn::{Activation, Mlp, Optimizer, Rngs, adamw, groups_by_label, sgd};
/// let model = Mlp::new(&[2, 8, 1], Activation::Tanh, &mut Rngs::new(0));
/// let label = |path: &pytree_core::KeyPath| {
///     if path.to_string().ends_with("bias") { "bias" } else { "weight" }
/// };
/// let both = groups_by_label(label, [("weight", adamw(1e-3, 1e-2)), ("bias", sgd(1e-2))]);
/// let optimizer = Optimizer::new(&model, both);
/// ```
#[doc(alias("optax.multi_transform", "optax.partition"))]
pub fn groups_by_label<L: PartialEq + Send + Sync + 'static>(
    label: impl Fn(&KeyPath) -> L + Clone + Send + Sync + 'static,
    chains: impl IntoIterator<Item = (L, Chain)>,
) -> Chain {
    groups(chains.into_iter().map(|(own, chain)| {
        let label = label.clone();
        let filter = Filter::predicate(move |path, _| label(path) == own);
        (filter, chain)
    }))
}

impl Groups {
    /// Returns for each group a list with a flag for each parameter. A flag is true if the parameter belongs to the
    /// group.
    ///
    /// # Errors
    /// Returns the error of a filter, [`OptimizerError::EmptyGroup`] if a group has no parameter, or
    /// [`OptimizerError::NoGroup`] with the paths of the parameters without a group.
    fn flags(&self, parameters: &Tree<Tensor>) -> Result<Vec<Vec<bool>>, OptimizerError> {
        let mut owners: Vec<Option<usize>> = vec![None; parameters.leaves().len()];
        for (number, group) in self.groups.iter().enumerate() {
            let chosen = group.selection.choose(parameters)?;
            let places = || chosen.iter().zip(0..).filter(|(chosen, _)| **chosen);
            if places().all(|(_, place): (_, usize)| owners[place].is_some()) {
                let paths = parameters.treedef().leaf_paths();
                let taken =
                    places().filter_map(|(_, place)| Some((paths[place].clone(), owners[place]?)));
                return Err(OptimizerError::EmptyGroup {
                    group: number,
                    groups: self.groups.len(),
                    taken: taken.collect(),
                });
            }
            for (_, place) in places() {
                // An earlier group keeps its parameters.
                owners[place].get_or_insert(number);
            }
        }
        let paths = parameters.treedef().leaf_paths();
        let left = paths.into_iter().zip(&owners);
        let left: Vec<KeyPath> = left
            .filter(|(_, owner)| owner.is_none())
            .map(|(path, _)| path)
            .collect();
        if !left.is_empty() {
            return Err(OptimizerError::NoGroup { paths: left });
        }
        let flags = (0..self.groups.len()).map(|number| {
            let own = owners.iter().map(|owner| *owner == Some(number));
            own.collect()
        });
        Ok(flags.collect())
    }
}

impl GradientTransformation for Groups {
    fn check(&self, parameters: &Tree<Tensor>) -> Result<(), OptimizerError> {
        for (group, flags) in self.groups.iter().zip(self.flags(parameters)?) {
            let selection = Selection::Flags(flags);
            group.inner.check(&selection.part(parameters))?;
        }
        Ok(())
    }

    fn init(&mut self, parameters: &Tree<Tensor>) {
        let flags = match self.flags(parameters) {
            Ok(flags) => flags,
            Err(error) => panic!("{error}"),
        };
        for (group, flags) in self.groups.iter_mut().zip(flags) {
            group.selection = Selection::Flags(flags);
            group.init(parameters);
        }
    }

    fn other_parameters(&self, parameters: &[Tensor]) -> Vec<(usize, AbstractArray)> {
        let groups = self.groups.iter();
        groups
            .flat_map(|group| group.other_parameters(parameters))
            .collect()
    }

    fn update(&mut self, gradients: Vec<Tensor>, parameters: &[Tensor]) -> Vec<Tensor> {
        let groups = self.groups.iter_mut();
        groups.fold(gradients, |gradients, group| {
            group.update(gradients, parameters)
        })
    }

    fn hyperparameters(&mut self) -> Vec<NamedHyperparameter<'_>> {
        let groups = self.groups.iter_mut();
        groups
            .flat_map(GradientTransformation::hyperparameters)
            .collect()
    }
}

/// Replaces gradients by zeros.
#[derive(Module, Clone, Debug)]
struct SetToZero;

/// Returns the transformation that replaces all updates by 0, like `optax.set_to_zero`. Use this transformation for
/// frozen groups.
///
/// # Examples
/// ```
/// use pytree_core::Filter;
/// use pytree_nn::{adam, groups, set_to_zero};
/// let head_only = groups([(Filter::path("head"), adam(1e-3)), (Filter::everything(), set_to_zero())]);
/// ```
#[doc(alias = "optax.set_to_zero")]
pub fn set_to_zero() -> Chain {
    Chain::of(SetToZero)
}

impl GradientTransformation for SetToZero {
    fn init(&mut self, _: &Tree<Tensor>) {}

    fn update(&mut self, gradients: Vec<Tensor>, _: &[Tensor]) -> Vec<Tensor> {
        gradients.iter().map(Tensor::zeros_like).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Activation, Mlp, Optimizer, Rngs, adam, sgd};

    #[test]
    fn group_without_parameter_names_takers() {
        let model = Mlp::new(&[2, 3, 1], Activation::Tanh, &mut Rngs::new(0));
        let layer = |index: usize| Filter::path(format!("layers[{index}]"));
        let message = |groups| {
            let error = Optimizer::try_with_filter(&model, groups, &Filter::everything()).err();
            error.map_or_else(String::new, |error| error.to_string())
        };
        let three = groups([
            (layer(0), adam(0.1)),
            (layer(1), adam(0.1)),
            (Filter::path_contains("bias"), sgd(0.1)),
        ]);
        assert_eq!(
            message(three),
            "cannot divide the parameters into groups: group 3 of 3 gets no parameter, because earlier groups take all that its filter accepts:\n  \
             group 1 takes layers[0].bias\n  \
             group 2 takes layers[1].bias\n\
             a parameter belongs to the first group whose filter accepts it: put group 3 before them, or remove it"
        );
        let in_order = groups([
            (Filter::path_contains("bias"), sgd(0.1)),
            (layer(0), adam(0.1)),
            (layer(1), adam(0.1)),
        ]);
        assert_eq!(message(in_order), "");
        let misspelt = groups([(Filter::path_contains("bais"), sgd(0.1))]);
        assert!(message(misspelt).contains("cannot choose the parameters of a transformation"));
    }
}
