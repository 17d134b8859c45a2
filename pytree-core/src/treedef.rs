//! Treedefs: the structure of a tree as a value.
//!
//! A treedef is a flat array of nodes in preorder, and an array of their static values and keys. A treedef is compared,
//! hashed and walked without recursion, so its depth is not limited. Other modules read the nodes through a
//! [`NodeView`] and build treedefs with a [`Builder`].
//!
//! Invariants:
//! - The subtree of node `i` is `nodes[i .. i + nodes[i].size]`.
//! - The static values of node `i` are `aux[nodes[i].aux .. nodes[i + 1].aux]`.
//! - Leaves and absent leaves are nodes without children.
//! - A shape that was created at run time is in `dynamic`. Its node refers to a stand-in, which represents all such
//!   shapes of a family.
//! - Shared nodes and references are numbered together, in preorder of their first places. A later place is an alias with the
//!   number, and so is a weak edge. Only a weak edge may refer to a later node or to nothing. So a treedef describes a whole graph, and
//!   two graphs have the same structure exactly if their treedefs are equal.
//! - Names of leaf types and of axes are stored and never compared.

mod aliases;
mod axes;
mod build;
mod common;
mod compare;
mod compose;
mod cursor;
mod display;
mod dynamic;
mod edit;
mod keys;
mod kinds;
mod missing;
mod node;
mod part;
mod prefix;
mod roles;
#[cfg(feature = "serde")]
mod serde_form;
mod serial;
mod statics;
mod structure;
mod walk;

pub(crate) use self::aliases::Aliases;
pub(crate) use self::axes::Stacking;
pub(crate) use self::build::Builder;
pub(crate) use self::common::no_common_suffix;
pub(crate) use self::compose::Renumbered;
pub(crate) use self::cursor::Cursor;
pub use self::cursor::NodeView;
pub(crate) use self::display::Notation;
pub(crate) use self::keys::key_below;
pub(crate) use self::node::count;
pub(crate) use self::prefix::{Fit, Meeting};
pub use self::roles::LeafRoles;
pub use self::structure::TreeDef;
pub(crate) use self::structure::WeakTreeDef;
pub(crate) use self::walk::Step;
