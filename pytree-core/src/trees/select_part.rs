//! What a part of a tree looks like to the user.

use crate::base::error::TreeError;
use crate::contract::pytree::PytreeOf;
use crate::node::leaf::Leaf;
use crate::trees::dynamic::Tree;
use crate::trees::partition::Partition;

/// What a part of a tree looks like to the user: see [`SelectPart`].
///
/// The part of a leaf is the leaf, the part of a tuple is the tuple of the parts, and the part of
/// anything else is a [`Partition`]. Gradients come in this form.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no parts of `{L}` leaves",
    label = "a module, a tensor, or a tuple or container of them is needed here",
    note = "a type of your own gets them by `#[derive(Module)]` or `#[derive(Pytree)]`"
)]
pub trait SelectPart<L: Leaf + Clone>: PytreeOf<L> {
    /// The part's type.
    type Part: PytreeOf<L>;

    /// Makes the part from a tree of this type's structure in which some leaves are absent.
    ///
    /// # Errors
    /// If the tree is of another structure, or the leaf of a place that can't be absent is.
    fn select_part(tree: Tree<L>) -> Result<Self::Part, TreeError>;
}

/// The default of [`SelectPart`] for a type that is not a leaf or a tuple.
///
/// # Errors
/// As [`SelectPart::select_part`].
pub fn select_partition<T: PytreeOf<L>, L: Leaf + Clone>(
    tree: Tree<L>,
) -> Result<Partition<T, L>, TreeError> {
    Ok(Partition::from_tree(tree))
}
