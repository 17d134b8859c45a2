//! Replaces leaves of a model by the leaves of a part, and merges parts that may have leaves in common.

use pytree_base::bug::{LEAVES, bug, expect_at};

use super::Partition;
use super::merge::{Overlap, merge_two, replaced};
use crate::base::error::{MergeProblem, TreeError};
use crate::contract::pytree::PytreeOf;
use crate::node::leaf::Leaf;
use crate::references::boundary;
use crate::trees::dynamic::Tree;

/// Replaces the leaves of a model by the leaves that are present in `part`, in-place. On an error, no leaf is replaced.
///
/// The model keeps its references. A reference is written if it contains a leaf of the part. To apply several parts,
/// first combine them with [`merge_state`].
///
/// # Examples
/// ```
/// use pytree_core::{Filter, partition};
/// let mut model = vec![1.0_f32, 2.0, 3.0];
/// let part = partition::filter(&model, &Filter::path("[1]")).map(|leaf: &f32| leaf * 10.0);
/// partition::update(&mut model, &part)?;
/// assert_eq!(model, [1.0, 20.0, 3.0]);
/// # Ok::<(), pytree_core::TreeError>(())
/// ```
///
/// # Errors
/// - [`TreeError::Structure`] with all differences if the part has another structure.
/// - [`TreeError::Shapes`] if a new leaf does not match the named axes of its module although the arrays of the model
///   match.
/// - [`TreeError::Reference`] if a reference may not be read or written here.
#[doc(alias("nnx.update", "nn.Module.load_state_dict"))]
#[track_caller]
pub fn update<M: PytreeOf<L>, L: Leaf + Clone>(
    model: &mut M,
    part: &Partition<M, L>,
) -> Result<(), TreeError> {
    let doing = "cannot update a model by a part";
    *model = boundary::repeated(|| {
        let (leaves, treedef, references) = boundary::try_flatten_with_references::<L, M>(model)?;
        let replaced =
            replaced(&treedef, leaves, part).map_err(|error| as_structure(doing, error))?;
        replaced.check(model, &treedef)?;
        boundary::unflatten_changed(&treedef, replaced.leaves, &references, |position| {
            *expect_at(&replaced.changed, position, LEAVES)
        })
    })?;
    Ok(())
}

/// Merges parts. Each leaf is taken from the last part in which it is present.
///
/// For parts that have no leaf in common, use [`merge`](super::merge).
///
/// # Examples
/// ```
/// use pytree_core::{Filter, partition};
/// let model = vec![1.0_f32, 2.0, 3.0];
/// let first = partition::filter(&model, &Filter::path("[0]"));
/// let all = partition::filter(&model, &Filter::everything()).map(|leaf: &f32| leaf * 10.0);
/// let merged = partition::merge_state([all.clone(), first.clone()])?;
/// assert_eq!(merged.leaves(), [1.0, 20.0, 30.0]);
/// let merged = partition::merge_state([first, all])?;
/// assert_eq!(merged.leaves(), [10.0, 20.0, 30.0]);
/// # Ok::<(), pytree_core::TreeError>(())
/// ```
///
/// # Errors
/// - [`TreeError::Structure`] with all differences if the parts have different structures.
/// - [`TreeError::Build`] if there are no parts.
#[doc(alias = "nnx.merge_state")]
pub fn merge_state<M, L>(
    parts: impl IntoIterator<Item = Partition<M, L>>,
) -> Result<Partition<M, L>, TreeError> {
    let trees = parts.into_iter().map(Partition::into_tree).collect();
    merge_state_trees(trees).map(Partition::from_tree)
}

/// Merges trees; see [`merge_state`].
pub(crate) fn merge_state_trees<L>(trees: Vec<Tree<L>>) -> Result<Tree<L>, TreeError> {
    let mut trees = trees.into_iter();
    let Some(first) = trees.next() else {
        return Err(TreeError::Build {
            node: "merged state",
            reason: "there are no states to merge".to_owned(),
        });
    };
    trees
        .try_fold(first, |merged, tree| {
            merge_two(merged, tree, Overlap::LaterWins)
        })
        .map_err(|error| as_structure("cannot merge states", error))
}

/// Converts a merge error to [`TreeError::Structure`]. If later leaves replace earlier ones, the only possible problems
/// are differences of structure.
fn as_structure(doing: &'static str, error: TreeError) -> TreeError {
    let TreeError::Merge { problems } = error else {
        return error;
    };
    let differences = problems.into_iter().map(|problem| match problem {
        MergeProblem::Structure(difference) => difference,
        problem => bug(format_args!(
            "only differences of structure, found {problem:?}"
        )),
    });
    TreeError::Structure {
        doing,
        differences: differences.collect(),
    }
}
