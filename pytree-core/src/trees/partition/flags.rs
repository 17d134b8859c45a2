//! Splits a tree by a prefix tree of flags.

use super::{Partition, select};
use crate::base::error::TreeError;
use crate::contract::pytree::PytreeOf;
use crate::node::leaf::Leaf;
use crate::node::shape::NodeKind;
use crate::treedef::TreeDef;
use crate::trees::dynamic::Tree;
use crate::trees::{graph, tree};

/// Splits a tree into the leaves whose flag is true, and the other leaves. The flags are a prefix of the tree: each
/// flag applies to the whole subtree at its position, as in Equinox's `filter_spec`.
///
/// # Examples
/// ```
/// use pytree_core::{partition, tree};
/// let model = (vec![1.0_f32, 2.0], 3.0_f32);
/// let [chosen, rest] = partition::split_by_flags(&model, &tree!((true, false)).cast()?)?;
/// assert_eq!((chosen.leaves(), rest.leaves()), ([1.0, 2.0].as_slice(), [3.0].as_slice()));
/// // A flag for each leaf, to be changed by path.
/// let mut flags = tree::map_to(&model, |_: &f32| false);
/// *flags.get_mut("[0][1]")? = true;
/// assert_eq!(partition::split_by_flags(&model, &flags)?[0]["[0][1]"], 2.0);
/// # Ok::<(), pytree_core::TreeError>(())
/// ```
///
/// # Errors
/// - [`TreeError::Prefix`] with all differences if the flags are not a prefix of the tree.
/// - [`TreeError::FlagsDiffer`] if a shared leaf has different flags at two of its paths.
#[doc(alias = "eqx.partition")]
#[track_caller]
pub fn split_by_flags<M: PytreeOf<L>, L: Leaf + Clone>(
    whole: &M,
    flags: &Tree<bool>,
) -> Result<[Partition<M, L>; 2], TreeError> {
    let (leaves, treedef) = graph::try_flatten::<L, M>(whole)?;
    let chosen = flags_of_leaves(whole, &treedef, flags)?;
    let treedef = treedef.as_whole();
    Ok([true, false].map(|flag| select(&treedef, &leaves, |position| chosen[position] == flag)))
}

/// Returns the flag of each leaf of the graph form.
fn flags_of_leaves<M: PytreeOf<L>, L: Leaf + Clone>(
    whole: &M,
    graph: &TreeDef,
    flags: &Tree<bool>,
) -> Result<Vec<bool>, TreeError> {
    // Flags with aliases are in the graph form. If the value has no tree form, its flags must be in the graph form.
    if flags.treedef().has_aliases() || !graph.has_aliases() || !graph.has_tree_form() {
        return Ok(flags.broadcast_to(graph)?.into_parts().0);
    }
    let everywhere = flags.broadcast_to(&tree::structure(whole))?;
    let mut chosen: Vec<Option<bool>> = vec![None; graph.num_leaves()];
    for ((position, flag), path) in leaves_of_tree_form(graph)
        .into_iter()
        .zip(everywhere.leaves())
        .zip(everywhere.treedef().leaf_paths())
    {
        if *chosen[position].get_or_insert(*flag) != *flag {
            return Err(TreeError::FlagsDiffer { path });
        }
    }
    Ok(chosen.into_iter().map(|flag| flag == Some(true)).collect())
}

/// Returns, for each leaf of the tree form, its position among the leaves of the graph form.
fn leaves_of_tree_form(graph: &TreeDef) -> Vec<usize> {
    let before = graph.leaves_before();
    let mut leaves = Vec::new();
    let mut rest = vec![0];
    while let Some(node) = rest.pop() {
        let node = graph.view(graph.first_place_of(node));
        if node.kind() == NodeKind::Leaf {
            leaves.push(before[node.position()]);
        }
        let first = rest.len();
        rest.extend(node.children().map(|child| child.position()));
        rest[first..].reverse();
    }
    leaves
}
