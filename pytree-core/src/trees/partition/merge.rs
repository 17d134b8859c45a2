//! Merges parts into a whole tree, and replaces leaves of a tree by the leaves of a part.

use pytree_base::bug::{LEAVES, expect_next};

use super::Partition;
use crate::base::error::{MergeProblem, TreeError};
use crate::contract::pytree::{Pytree, PytreeOf};
use crate::contract::unflatten;
use crate::node::leaf::Leaf;
use crate::node::shape::NodeKind;
use crate::treedef::{NodeView, TreeDef};
use crate::trees::dynamic::Tree;
use crate::trees::{graph, shapes};

/// Merges parts into the whole tree that they were split from.
///
/// # Errors
/// - [`TreeError::Merge`] with each leaf that is in no part or in more than one, and each difference between the
///   structures of the parts.
/// - [`TreeError::Shapes`] with each array that does not match the named axes of its module; see
///   [`check_any_stack`](crate::axes::check_any_stack).
#[doc(alias("nnx.merge", "eqx.combine", "refx.merge_partitions"))]
pub fn merge<M: PytreeOf<L>, L: Leaf + Clone>(
    parts: impl IntoIterator<Item = Partition<M, L>>,
) -> Result<M, TreeError> {
    let (leaves, treedef) = merged(parts)?.into_parts();
    let whole = unflatten::unflatten_unchecked(&treedef, leaves)?;
    if treedef.has_axes() {
        shapes::check::<M>(&whole)?;
    }
    Ok(whole)
}

/// Merges parts into a tree.
fn merged<M, L>(parts: impl IntoIterator<Item = Partition<M, L>>) -> Result<Tree<L>, TreeError> {
    let trees: Vec<Tree<L>> = parts.into_iter().map(Partition::into_tree).collect();
    let merged = merge_trees(trees)?;
    let missing = missing_places(merged.treedef());
    if missing.is_empty() {
        return Ok(merged.into_value_form());
    }
    Err(TreeError::Merge { problems: missing })
}

/// Replaces the leaves of the whole tree by the leaves that are present in `part`.
///
/// # Errors
/// - [`TreeError::Merge`] if the part has another structure.
/// - [`TreeError::Shapes`] if a new leaf does not match the named axes of its module although the arrays of `whole`
///   match.
#[doc(alias = "torch.func.functional_call")]
pub fn replace<M: PytreeOf<L>, L: Leaf + Clone>(
    whole: &M,
    part: &Partition<M, L>,
) -> Result<M, TreeError> {
    let (leaves, treedef) = graph::try_flatten::<L, M>(whole)?;
    let replaced = replaced(&treedef, leaves, part)?;
    replaced.check(whole, &treedef)?;
    unflatten::unflatten_unchecked(&treedef, replaced.leaves)
}

/// The leaves of a tree after some of them were replaced.
pub(crate) struct Replaced<L> {
    /// All leaves.
    pub(crate) leaves: Vec<L>,
    /// Whether each leaf was replaced.
    pub(crate) changed: Vec<bool>,
    /// Whether a new leaf has another shape or dtype.
    is_reshaped: bool,
}

impl<L: Leaf> Replaced<L> {
    /// Compares the leaves with the named axes of the modules in `before`, the value whose leaves were replaced.
    ///
    /// # Errors
    /// [`TreeError::Shapes`] if a leaf does not match although the leaves of `before` match.
    pub(crate) fn check<T: Pytree>(&self, before: &T, treedef: &TreeDef) -> Result<(), TreeError> {
        if self.is_reshaped && treedef.has_axes() {
            shapes::check_change(before, treedef, &self.leaves)?;
        }
        Ok(())
    }
}

/// Replaces leaves of a tree by the leaves of a part.
///
/// # Errors
/// [`TreeError::Merge`] if the part has another structure.
pub(crate) fn replaced<M, L: Leaf + Clone>(
    treedef: &TreeDef,
    mut leaves: Vec<L>,
    part: &Partition<M, L>,
) -> Result<Replaced<L>, TreeError> {
    let places = part.tree.treedef();
    check_alike(&treedef.as_whole(), places)?;
    let mut values = part.leaves().iter();
    let changed = places.presence().into_owned();
    let mut is_reshaped = false;
    for (own, _) in leaves
        .iter_mut()
        .zip(&changed)
        .filter(|(_, changed)| **changed)
    {
        let value = expect_next(&mut values, LEAVES);
        is_reshaped |= own.array_info() != value.array_info();
        *own = value.clone();
    }
    Ok(Replaced {
        leaves,
        changed,
        is_reshaped,
    })
}

/// Compares two structures, ignoring absent leaves.
///
/// # Errors
/// [`TreeError::Merge`] with all differences.
fn check_alike(left: &TreeDef, right: &TreeDef) -> Result<(), TreeError> {
    if left.is_same_but_for_presence(right) {
        return Ok(());
    }
    let everywhere = |treedef: &TreeDef| treedef.with_presence(|_| true);
    let differences = everywhere(left).differences(&everywhere(right)).into_iter();
    Err(TreeError::Merge {
        problems: differences.map(MergeProblem::Structure).collect(),
    })
}

fn missing_places(treedef: &TreeDef) -> Vec<MergeProblem> {
    if !treedef.has_absent() {
        return Vec::new();
    }
    let mut missing = Vec::new();
    treedef.walk_places(|place| {
        if !place.holds_leaf {
            missing.push(MergeProblem::Missing(place.path.clone()));
        }
    });
    missing
}

/// Merges trees of the same structure.
fn merge_trees<L>(trees: Vec<Tree<L>>) -> Result<Tree<L>, TreeError> {
    let mut trees = trees.into_iter();
    let Some(mut merged) = trees.next() else {
        return Err(TreeError::Build {
            node: "merged tree",
            reason: "there are no parts to merge".to_owned(),
        });
    };
    for tree in trees {
        merged = merge_two(merged, tree, Overlap::Refused)?;
    }
    Ok(merged)
}

/// The treatment of a leaf that is present in both trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overlap {
    /// The leaf is reported as an error.
    Refused,
    /// The leaf of the later tree is used.
    LaterWins,
}

pub(super) fn merge_two<L>(
    left: Tree<L>,
    right: Tree<L>,
    overlap: Overlap,
) -> Result<Tree<L>, TreeError> {
    let (left_leaves, left_treedef) = left.into_parts();
    let (right_leaves, right_treedef) = right.into_parts();
    check_alike(&left_treedef, &right_treedef)?;
    let (mut left_leaves, mut right_leaves) = (left_leaves.into_iter(), right_leaves.into_iter());
    let mut leaves = Vec::with_capacity(left_leaves.len() + right_leaves.len());
    let (left_presence, right_presence) = (left_treedef.presence(), right_treedef.presence());
    let mut is_twice = false;
    for present in left_presence.iter().zip(&*right_presence) {
        match present {
            (true, false) => leaves.push(expect_next(&mut left_leaves, LEAVES)),
            (false, true) => leaves.push(expect_next(&mut right_leaves, LEAVES)),
            (true, true) => {
                left_leaves.next();
                leaves.push(expect_next(&mut right_leaves, LEAVES));
                is_twice = true;
            }
            (false, false) => {}
        }
    }
    if is_twice && overlap == Overlap::Refused {
        return Err(present_twice(&left_treedef, &right_treedef));
    }
    Ok(Tree::from_parts(
        left_treedef.with_leaves_of(&right_treedef),
        leaves,
    ))
}

/// Returns the error that some leaves are present in both trees.
#[cold]
fn present_twice(left: &TreeDef, right: &TreeDef) -> TreeError {
    let is_leaf = |node: NodeView<'_>| node.kind() == NodeKind::Leaf;
    let pairs = left.nodes().zip(right.nodes());
    let twice = pairs.filter(|&(node, other)| is_leaf(node) && is_leaf(other));
    let twice: Vec<usize> = twice.map(|(node, _)| node.position()).collect();
    let paths = left.node_paths(&twice).into_iter();
    TreeError::Merge {
        problems: paths.map(MergeProblem::Twice).collect(),
    }
}
