//! Chooses the trained leaves of a model, and compares gradients with the trained leaves.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, VecDeque};

use pytree_base::bug::{LEAVES, expect_some, pairs};
use pytree_core::{KeyPath, LeafKind, Static, TreeDef};
use pytree_transform::Tensor;

use crate::convert_floats::at_least_f32_dtype;
use crate::optimizers::error::{GradientProblem, OptimizerError};

/// How an update treats a parameter without a gradient. A parameter has no gradient if the loss does not depend on the
/// parameter.
#[derive(Static, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum MissingGradients {
    /// The update returns an error that names the parameter.
    #[default]
    Error,
    /// The gradient is zero, as in JAX. So momentum and weight decay still change the parameter, and the moments of
    /// Adam decay.
    Zero,
}

/// Whether a leaf is trained, or why it is not trained. The choice is made when the optimizer is created.
#[derive(Static, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    Trained,
    /// The leaf was a state when the optimizer was created, for example because the leaf was frozen.
    State,
    /// The filter excluded the leaf.
    LeftOut,
}

/// Returns the choice for each leaf of `model`, given the `choices` that were made when the optimizer was created.
/// States such as sown values may have been added or removed since then. If the number of leaves that are not states is
/// the same, the choices apply to these leaves in order.
pub(super) fn choices_now<'c>(
    choices: &'c [Choice],
    model: &TreeDef,
) -> Result<Cow<'c, [Choice]>, OptimizerError> {
    if model.num_leaves() == choices.len() {
        return Ok(Cow::Borrowed(choices));
    }
    let kinds = model.leaf_kinds();
    let is_state = |kind: &Option<LeafKind>| matches!(kind, Some(LeafKind::State(_)));
    let chosen = choices.iter().copied();
    let mut chosen: VecDeque<Choice> = chosen.filter(|choice| *choice != Choice::State).collect();
    if chosen.len() != kinds.iter().filter(|kind| !is_state(kind)).count() {
        return Err(OptimizerError::OtherModel {
            expected: choices.len(),
            found: kinds.len(),
        });
    }
    let now = kinds.iter().map(|kind| {
        if is_state(kind) {
            Choice::State
        } else {
            expect_some(
                chosen.pop_front(),
                "a choice for each leaf whose kind is not `State`",
            )
        }
    });
    Ok(now.collect())
}

/// Returns a gradient for each parameter, in the order of the parameters. `model` is the treedef of the model and the
/// choice for each leaf, `treedef` is the structure of `parameters`, and `found` is the structure of `gradients`.
///
/// # Errors
/// Returns a problem for each gradient without a parameter, and for each gradient of a wrong shape or dtype. If missing
/// gradients are an error, also returns a problem for each parameter without a gradient.
pub(super) fn gradients_of(
    model: (&TreeDef, &[Choice]),
    (treedef, parameters): (&TreeDef, &[Tensor]),
    (found, mut gradients): (&TreeDef, Vec<Tensor>),
    missing: MissingGradients,
) -> Result<Vec<Tensor>, OptimizerError> {
    let mut problems = Vec::new();
    // The static values of the two structures may differ, for example in the mode, so the leaves are matched by path.
    if treedef != found {
        let (expected, found) = (treedef.leaf_paths(), found.leaf_paths());
        problems = unmatched(model, &expected, &found);
        if missing == MissingGradients::Zero {
            problems.retain(|problem| !matches!(problem, GradientProblem::Missing(_)));
            if problems.is_empty() && found.len() < expected.len() {
                let mut by_path: HashMap<KeyPath, Tensor> =
                    found.into_iter().zip(gradients).collect();
                let places = pairs(&expected, parameters, LEAVES);
                let filled = places.map(|(path, parameter)| {
                    let gradient = by_path.remove(path);
                    gradient.unwrap_or_else(|| Tensor::zeros_like(parameter))
                });
                gradients = filled.collect();
            }
        }
    }
    if problems.is_empty() {
        // A gradient whose scale was divided out is f32, although its parameter is in half precision.
        let differ = |(parameter, gradient): (&Tensor, &Tensor)| {
            let dtypes = [parameter.dtype(), at_least_f32_dtype(parameter.dtype())];
            parameter.shape() != gradient.shape() || !dtypes.contains(&gradient.dtype())
        };
        if parameters.iter().zip(&gradients).any(differ) {
            let pairs = treedef.leaf_paths().into_iter();
            for (path, pair) in pairs.zip(parameters.iter().zip(&gradients)) {
                if differ(pair) {
                    problems.push(GradientProblem::Shape {
                        path,
                        expected: pair.0.info().clone(),
                        found: pair.1.info().clone(),
                    });
                }
            }
        }
    }
    if problems.is_empty() {
        Ok(gradients)
    } else {
        Err(OptimizerError::Gradients { problems })
    }
}

/// Returns the parameters without a gradient and the gradients without a parameter.
fn unmatched(
    (model, choices): (&TreeDef, &[Choice]),
    expected: &[KeyPath],
    found: &[KeyPath],
) -> Vec<GradientProblem> {
    let without = |paths: &[KeyPath], others: &[KeyPath]| -> Vec<KeyPath> {
        let others: BTreeSet<&KeyPath> = others.iter().collect();
        paths
            .iter()
            .filter(|path| !others.contains(path))
            .cloned()
            .collect()
    };
    let places = model.leaf_paths().into_iter();
    let now: HashMap<KeyPath, (bool, Choice)> = places
        .zip(model.leaf_kinds())
        .zip(choices)
        .map(|((path, kind), choice)| {
            let is_state = matches!(kind, Some(LeafKind::State(_)));
            (path, (is_state, *choice))
        })
        .collect();
    let missing = |path| match now.get(&path) {
        Some((true, _)) => GradientProblem::FrozenSince(path),
        _ => GradientProblem::Missing(path),
    };
    let surplus = |path| match now.get(&path) {
        Some((false, Choice::State)) => GradientProblem::ThawedSince(path),
        None => GradientProblem::NoLeaf(path),
        _ => GradientProblem::Frozen(path),
    };
    let without_gradient = without(expected, found).into_iter().map(missing);
    let without_parameter = without(found, expected).into_iter().map(surplus);
    without_gradient.chain(without_parameter).collect()
}
