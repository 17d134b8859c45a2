//! Pytrees: values as trees of leaves.
//!
//! A model is a plain struct that is also a pytree. [`Module`] gives each of its leaves a kind;
//! [`mod@tree`] and [`graph`] hold the functions on trees; [`partition`] splits them into parts.
//! This crate knows nothing of arithmetic or transformations.

// The derive names this crate by its own name; inside of it that name must exist too.
extern crate self as pytree_core;

mod annotated;
mod containers;
pub mod crossing;
mod dictionary;
mod diff;
mod dynamic;
pub mod dynamic_module;
pub mod edit;
pub mod error;
pub mod field;
pub mod filter;
pub mod freeze;
mod functions;
mod identity;
mod insertion;
mod kept;
pub mod kind;
pub mod leaf;
pub mod level;
pub mod lint;
pub mod nodes;
pub mod object;
pub mod partition;
pub mod path;
mod pytree;
pub mod ravel;
mod reference;
pub mod refs;

pub mod select;
pub mod shape;
mod shared;
pub mod state;
pub mod statics;
pub mod suggest;
mod treedef;
mod unflatten;

pub use crate::annotated::{Annotated, Metadata};
pub use crate::dictionary::{Dictionary, Entry};
pub use crate::diff::{LeafChange, LeafDiff, ModelDiff, ValueDiff, diff};
pub use crate::dynamic::{Subtree, Tree, TreeBuilder};
pub use crate::dynamic_module::{DynamicModule, RegistrationProblem};
pub use crate::error::TreeError;
pub use crate::filter::Filter;
pub use crate::freeze::{Freeze, Frozen};
pub use crate::functions::{graph, match_structure, tree};
pub use crate::identity::Identity;
pub use crate::insertion::InsertionOrder;
pub use crate::kind::{Collection, CollectionId, FieldKind, LeafKind};
pub use crate::leaf::{AnyLeaf, ArrayInfo, Element, ElementType, Leaf};
pub use crate::lint::{Finding, lint};
pub use crate::partition::Partition;
pub use crate::path::{AsKeyPath, Key, KeyPath};
pub use crate::pytree::{
    Module, ModuleType, Pytree, PytreeOf, ReferenceNode, SelectPart, SharedNode, SharedVisit,
    Visitor, select_partition,
};
pub use crate::reference::{
    Access, AnyReference, Ref, ReferenceError, References, Unrepeated, WeakRef,
};
pub use crate::select::{Selector, at};
pub use crate::shared::{Shared, Weak};
pub use crate::state::{PlaceProblem, State};
pub use crate::statics::{StaticBox, StaticData, StaticRef, StaticValue};
pub use crate::treedef::{NodeView, Sharing, TreeDef};
pub use crate::unflatten::{Contents, Unflattener};

// The macros share the names of the traits they implement.
pub use pytree_derive::{Collection, Leaf, Module, Pytree, Static, module_object};

#[doc(hidden)]
pub use pytree_derive::tree_of_tokens as __tree_of_tokens;

/// The traits without the macros of the same names: the facade puts its own macros beside them, which
/// generate other paths.
#[doc(hidden)]
pub mod traits {
    pub use crate::insertion::InsertionOrder;
    pub use crate::kind::Collection;
    pub use crate::leaf::Leaf;
    pub use crate::pytree::{Module, Pytree};
}
