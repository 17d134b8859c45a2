//! Functions that replace some weights of a model for one call, and restore the weights after the call. Layers that
//! wrap a whole model, such as [`Lora`](crate::Lora), use both functions.

use pytree_core::{Partition, TreeError, edit};
use pytree_transform::Tensor;
use thiserror::Error;

use crate::model::Model;

/// The error of a wrapper such as [`Lora`](crate::Lora), if the wrapper finds no weights to replace.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum WrapError {
    /// The filter selects no parameter with the right number of axes.
    #[error(
        "cannot {action}: the filter selects {selected}, expected parameters with {axes}; choose a filter that selects such parameters, for instance `Filter::param()`"
    )]
    NoWeight {
        /// The action of the wrapper, such as `add adapters`.
        action: &'static str,
        /// The parameters that the filter selects.
        selected: String,
        /// The expected number of axes.
        axes: &'static str,
    },
    /// The filter has an unknown path.
    #[error("cannot select weights: {0}")]
    Filter(#[from] TreeError),
}

impl WrapError {
    /// Returns the error for a selection without weights.
    pub(super) fn no_weight<M>(
        action: &'static str,
        axes: &'static str,
        selected: &Partition<M, Tensor>,
    ) -> Self {
        let leaves = selected.iter_with_path();
        let leaves: Vec<String> = leaves
            .map(|(path, leaf)| format!("{path}: {}", leaf.info()))
            .collect();
        let selected = if leaves.is_empty() {
            "no parameter".to_owned()
        } else {
            leaves.join(", ")
        };
        Self::NoWeight {
            action,
            selected,
            axes,
        }
    }
}

/// Replaces each leaf by the tensor that `change` returns, and keeps the leaf if `change` returns `None`. Returns the
/// changed model, and the replaced leaves with their paths.
#[track_caller]
pub(super) fn rewritten<M: Model>(
    model: &M,
    mut change: impl FnMut(&str, &Tensor) -> Option<Tensor>,
) -> (M, Vec<(String, Tensor)>) {
    let mut originals = Vec::new();
    let changed = edit::apply_with_path(model.clone(), |path, leaf: &mut Tensor| {
        let path = path.to_string();
        if let Some(new) = change(&path, leaf) {
            originals.push((path, std::mem::replace(leaf, new)));
        }
    });
    (changed, originals)
}

/// Returns the model with the original weights restored. Other leaves, such as running statistics, keep their values in
/// `model`.
#[track_caller]
pub(super) fn restored<M: Model>(model: M, originals: &[(String, Tensor)]) -> M {
    edit::apply_with_path(model, |path, leaf: &mut Tensor| {
        let path = path.to_string();
        if let Some((_, original)) = originals.iter().find(|(at, _)| *at == path) {
            *leaf = original.clone();
        }
    })
}
