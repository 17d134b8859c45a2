//! Functions that replace some weights of a model, in a copy or for one call. Layers that wrap a whole model, such as
//! [`Lora`](crate::Lora), use both functions.

use pytree_core::boundary::{call_with_leaves, flatten_with_references};
use pytree_core::{Filter, KeyPath, Partition, TreeError, edit, partition};
use pytree_transform::Tensor;
use thiserror::Error;

use crate::error::or_panic;
use crate::layers::matrix_layout::{MatrixLayout, roles_of};
use crate::model::Model;

/// The error of a wrapper such as [`Lora`](crate::Lora), if the wrapper finds no weights to replace.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WrapError {
    /// The filter selects no weight that is a matrix.
    #[error(
        "cannot {action}: the filter selects {selected}, expected weights with inputs and outputs; {}",
        instead(.matrices)
    )]
    NoWeight {
        /// The action of the wrapper, such as `add adapters`.
        action: &'static str,
        /// The parameters that the filter selects.
        selected: String,
        /// The paths of the weights of the model that have inputs and outputs.
        matrices: Vec<KeyPath>,
    },
    /// The rank of an adapter is zero, or greater than the number of rows or columns of its matrix.
    #[error(
        "cannot add adapters of rank {rank}: {path} is a matrix [{rows}, {columns}]; {}",
        other_rank(path, (*rows).min(*columns))
    )]
    Rank {
        /// The rank.
        rank: usize,
        /// The path of the matrix.
        path: KeyPath,
        /// The number of rows.
        rows: usize,
        /// The number of columns.
        columns: usize,
    },
    /// The filter has an unknown path, or selects weights whose fields do not declare the roles of their axes.
    #[error("cannot select weights: {0}")]
    Filter(#[from] TreeError),
}

pytree_base::debug_as_display!(WrapError);

fn other_rank(path: &KeyPath, most: usize) -> String {
    let leave_out = format!("leave it out: `filter & !Filter::path(\"{path}\")`");
    match most {
        0 => leave_out,
        1 => format!("use the rank 1, or {leave_out}"),
        _ => format!("use a rank from 1 to {most}, or {leave_out}"),
    }
}

fn instead(matrices: &[KeyPath]) -> String {
    const SHOWN: usize = 6;
    let Some(first) = matrices.first() else {
        return "the model has no such weights".to_owned();
    };
    let shown: Vec<String> = matrices.iter().take(SHOWN).map(KeyPath::or_root).collect();
    let more = if matrices.len() > SHOWN { ", …" } else { "" };
    format!(
        "choose a filter that selects some of the weights {}{more}, for instance `Filter::path(\"{first}\")`",
        shown.join(", ")
    )
}

/// Returns the parameters that a filter selects and that are matrices, with their paths and layouts. Selected parameters
/// that are not matrices, such as biases, are left out.
///
/// # Errors
/// [`WrapError::Filter`], and [`WrapError::NoWeight`] if no matrix is selected.
pub(super) fn selected_matrices<M: Model>(
    action: &'static str,
    model: &M,
    filter: &Filter,
) -> Result<Vec<(KeyPath, Tensor, MatrixLayout)>, WrapError> {
    let filter = Filter::param() & filter.clone();
    let selected: Partition<M, Tensor> = partition::try_filter(model, &filter)?;
    let layouts = roles_of(selected.tree(), |_| true)?.into_iter();
    let layouts = layouts.map(|roles| MatrixLayout::of(&roles?));
    let weights = selected.iter_with_path().zip(layouts);
    let matrices =
        weights.filter_map(|((path, weight), layout)| Some((path, weight.clone(), layout?)));
    let matrices: Vec<_> = matrices.collect();
    if !matrices.is_empty() {
        return Ok(matrices);
    }
    let leaves = selected.iter_with_path();
    let leaves: Vec<String> = leaves
        .map(|(path, leaf)| format!("{path}: {}", leaf.info()))
        .collect();
    let every: Partition<M, Tensor> = partition::try_filter(model, &Filter::param())?;
    let roles = every.tree().treedef().leaf_roles();
    let every = every.iter_with_path().zip(&roles);
    let matrices = every.filter_map(|((path, weight), roles)| {
        let layout = MatrixLayout::of(&roles.of_leaf(weight).ok()?);
        layout.map(|_| path)
    });
    let selected = if leaves.is_empty() {
        "no parameter".to_owned()
    } else {
        leaves.join(", ")
    };
    Err(WrapError::NoWeight {
        action,
        selected,
        matrices: matrices.collect(),
    })
}

/// Returns a copy of the model in which each leaf is replaced by the tensor that `change` returns, and the number of replaced
/// leaves. `change` returns `None` for a leaf that stays.
///
/// The copy has its own references: what it writes to them is not stored in the model.
#[track_caller]
pub(super) fn rewritten<M: Model>(
    model: &M,
    mut change: impl FnMut(&str, &Tensor) -> Option<Tensor>,
) -> (M, usize) {
    let mut replaced = 0;
    let changed = edit::apply_with_path(model.clone(), |path, leaf: &mut Tensor| {
        if let Some(new) = change(&path.to_string(), leaf) {
            *leaf = new;
            replaced += 1;
        }
    });
    (changed, replaced)
}

/// Calls a function with the model in which each leaf is replaced as by [`rewritten`]. The states that the function writes,
/// such as running statistics, are stored in `model`. The replaced leaves of `model` do not change.
#[track_caller]
pub(super) fn with_rewritten<M: Model, R>(
    model: &mut M,
    mut change: impl FnMut(&str, &Tensor) -> Option<Tensor>,
    function: impl FnOnce(&mut M) -> R,
) -> R {
    let (leaves, treedef, references) = flatten_with_references::<Tensor, M>(model);
    let paths = treedef.leaf_paths();
    let new = |(leaf, path): (&Tensor, &KeyPath)| change(&path.to_string(), leaf);
    let new: Vec<Option<Tensor>> = leaves.iter().zip(&paths).map(new).collect();
    let lent = new.iter().zip(&leaves);
    let lent = lent
        .map(|(new, leaf)| new.as_ref().unwrap_or(leaf).clone())
        .collect();
    let restore = |before: Option<usize>, leaf| match before {
        Some(at) if new[at].is_some() => leaves[at].clone(),
        _ => leaf,
    };
    or_panic(call_with_leaves(
        model,
        (&treedef, &references),
        lent,
        function,
        restore,
    ))
}
