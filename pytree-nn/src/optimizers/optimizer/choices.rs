//! The trained leaves of a model, and the comparison of gradients with them.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, VecDeque};

use pytree_core::bug::expect_some;
use pytree_core::{KeyPath, LeafKind, Static, TreeDef};
use pytree_transform::Tensor;

use crate::optimizers::{GradientProblem, OptimizerError};

/// Whether a leaf is trained. Decided when the optimizer is created.
#[derive(Static, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    Trained,
    /// The leaf was a state, or frozen.
    State,
    /// The filter excluded the leaf.
    LeftOut,
}

/// Returns the choice for each leaf of the model. States may be added or removed, for example sown values: if all
/// other leaves exist, the choices apply to them in order.
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
                "a choice for each leaf that is not a state",
            )
        }
    });
    Ok(now.collect())
}

/// Checks that there is one gradient of the right shape for each parameter, and no other gradient.
pub(super) fn check_gradients(
    model: &TreeDef,
    choices: &[Choice],
    expected: &TreeDef,
    parameters: &[Tensor],
    found: &TreeDef,
    gradients: &[Tensor],
) -> Result<(), OptimizerError> {
    let mut problems = Vec::new();
    // Static values may differ, for example the mode. Then the leaves are matched by path.
    if expected != found {
        let (expected, found) = (expected.leaf_paths(), found.leaf_paths());
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
            _ => GradientProblem::Frozen(path),
        };
        problems.extend(without(&expected, &found).into_iter().map(missing));
        problems.extend(without(&found, &expected).into_iter().map(surplus));
    }
    if problems.is_empty() {
        let differ =
            |(parameter, gradient): (&Tensor, &Tensor)| parameter.info() != gradient.info();
        if parameters.iter().zip(gradients).any(differ) {
            let pairs = expected.leaf_paths().into_iter();
            for (path, pair) in pairs.zip(parameters.iter().zip(gradients)) {
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
        Ok(())
    } else {
        Err(OptimizerError::Gradients { problems })
    }
}
