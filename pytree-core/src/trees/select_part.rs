//! The types in which selected leaves of a tree, for instance gradients, are returned to the user.

use super::dynamic::SameLeaf;
use crate::base::error::TreeError;
use crate::contract::pytree::PytreeOf;
use crate::node::leaf::Leaf;
use crate::trees::dynamic::Tree;
use crate::trees::partition::Partition;

/// Determines the type that is returned when some of the leaves of a tree are selected, for instance as gradients.
///
/// For a leaf, the returned type is the type of the leaf. For a tuple, it is the tuple of the returned types for the
/// members. For any other tree, it is a [`Partition`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no parts of `{L}` leaves",
    label = "a module, a tensor, or a tuple or container of them is needed here",
    note = "to select parts of your own type, write `#[derive(Module)]` or `#[derive(Pytree)]` on it",
    note = "in a generic function over models, add the bound `Model` to the type parameter"
)]
pub trait SelectPart<L: Leaf + Clone>: PytreeOf<L> {
    /// The type in which the selected leaves are returned.
    type Part: PytreeOf<L>;

    /// Converts a tree that has the structure of `Self` and only the selected leaves. The other leaves are absent.
    ///
    /// # Errors
    /// [`TreeError`] if the tree has another structure, or if a leaf that `Self::Part` requires is absent.
    fn select_part(tree: Tree<L>) -> Result<Self::Part, TreeError>;
}

/// Implements [`SelectPart::select_part`] for a type that is neither a leaf nor a tuple.
///
/// # Errors
/// The errors of [`SelectPart::select_part`].
pub fn select_partition<T: PytreeOf<L>, L: Leaf + Clone>(
    tree: Tree<L>,
) -> Result<Partition<T, L>, TreeError> {
    Ok(Partition::from_tree(tree))
}

impl<L: Leaf + Clone, K: Leaf + Clone + SameLeaf<L>> SelectPart<L> for Tree<K> {
    type Part = Tree<L>;
    fn select_part(tree: Tree<L>) -> Result<Tree<L>, TreeError> {
        Ok(tree.into_value_form())
    }
}

impl<M: 'static, L: Leaf + Clone> SelectPart<L> for Partition<M, L> {
    type Part = Self;
    fn select_part(tree: Tree<L>) -> Result<Self, TreeError> {
        Ok(Self::from_tree(tree.into_value_form()))
    }
}
