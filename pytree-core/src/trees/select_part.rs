//! The form in which a part of a tree is returned to the user.

use crate::base::error::TreeError;
use crate::contract::pytree::PytreeOf;
use crate::node::leaf::Leaf;
use crate::trees::dynamic::Tree;
use crate::trees::partition::Partition;

/// The form in which a part of a tree is returned; see [`SelectPart`].
///
/// The part of a leaf is the leaf. The part of a tuple is the tuple of the parts. The part of anything else is a
/// [`Partition`]. Gradients have this form.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no parts of `{L}` leaves",
    label = "a module, a tensor, or a tuple or container of them is needed here",
    note = "a type of your own gets them by `#[derive(Module)]` or `#[derive(Pytree)]`"
)]
pub trait SelectPart<L: Leaf + Clone>: PytreeOf<L> {
    /// The type of the part.
    type Part: PytreeOf<L>;

    /// Creates the part from a tree of this structure in which some leaves are absent.
    ///
    /// # Errors
    /// [`TreeError`] if the tree has another structure, or if a leaf is absent whose part must be a leaf.
    fn select_part(tree: Tree<L>) -> Result<Self::Part, TreeError>;
}

/// Creates the part of a value that is not a leaf or a tuple, for implementations of [`SelectPart`].
///
/// # Errors
/// The errors of [`SelectPart::select_part`].
pub fn select_partition<T: PytreeOf<L>, L: Leaf + Clone>(
    tree: Tree<L>,
) -> Result<Partition<T, L>, TreeError> {
    Ok(Partition::from_tree(tree))
}
