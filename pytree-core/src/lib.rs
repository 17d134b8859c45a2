//! Pytrees: values as trees of leaves.
//!
//! A model is a plain struct that is also a pytree. [`Module`] gives each of its leaves a kind. [`mod@tree`] and
//! [`graph`] contain the functions on trees; [`partition`] splits trees into parts. This crate contains no arithmetic
//! and no transformations.

// The derive refers to this crate by its name, so the name must exist inside the crate, too.
extern crate self as pytree_core;

mod base;
mod contract;
mod foreign;
mod module;
mod node;
mod notations;
mod references;
mod tools;
mod treedef;
mod trees;

pub use crate::base::error::{
    Access, MissingRoles, PlaceProblem, ReferenceError, RegistrationProblem, ShapeError,
    ShapeMismatch, TreeError, Unrepeated, VisitProblem, Writer,
};
pub use crate::base::identity::NodeIdentity;
pub use crate::base::kind::{Collection, CollectionId, FieldKind, Frozen, LeafKind};
pub use crate::base::path::{AsKeyPath, KeyPath, PathKey};
pub use crate::base::{error, kind, path};
pub use crate::contract::flatten::Sharing;
pub use crate::contract::handles::AnyReference;
pub use crate::contract::pytree::{Pytree, PytreeOf, ReferenceNode, SharedNode, Visit, Visitor};
pub use crate::contract::unflatten::{Contents, Unflattener};
#[cfg(feature = "burn_nn022")]
pub use crate::foreign::burn_nn022;
#[cfg(feature = "burn022")]
pub use crate::foreign::burn022;
#[cfg(feature = "candle_nn011")]
pub use crate::foreign::candle_nn011;
#[cfg(feature = "candle011")]
pub use crate::foreign::candle011;
pub use crate::foreign::opaque::Opaque;
pub use crate::module::annotated::{Annotated, Metadata};
pub use crate::module::dynamic_module::DynamicModule;
pub use crate::module::freeze::Freeze;
pub use crate::module::registry::{Module, ModuleType, Registry};
pub use crate::module::{axes, dynamic_module, freeze};
pub use crate::node::compare::{LeafChange, LeafDiff, ValueDiff};
pub use crate::node::insertion::InsertionOrder;
pub use crate::node::leaf::{
    AnyLeaf, ArrayInfo, ArrayLeaf, Element, ElementType, Leaf, LeafError, MappedAxis,
};
#[doc(hidden)]
pub use crate::node::statics::SavedStatic;
pub use crate::node::statics::{StaticBox, StaticData, StaticRef, StaticValue};
pub use crate::node::{leaf, shape, statics};
pub use crate::notations::dictionary::{Dictionary, DictionaryEntry};
pub use crate::notations::state::StateDisplay;
pub use crate::notations::{refs, state};
pub use crate::references::reference::{Ref, WeakRef};
pub use crate::references::shared::{Shared, WeakShared};
pub use crate::tools::diff::{ModelDiff, diff};
pub use crate::tools::lint::{Finding, lint};
pub use crate::tools::select::{EachSelector, Selector, at, at_each};
#[cfg(feature = "ndarray")]
pub use crate::tools::{arrays, ravel};
pub use crate::tools::{edit, lint, nodes, select};
pub use crate::treedef::{NodeView, TreeDef};
pub use crate::trees::dynamic::{Subtree, Tree, TreeBuilder};
pub use crate::trees::filter::Filter;
pub use crate::trees::functions::match_structure;
pub use crate::trees::mixed::{Mixed, mixed};
pub use crate::trees::partition::Partition;
pub use crate::trees::select_part::SelectPart;
pub use crate::trees::{filter, graph, partition, tree};

// The macros share the names of the traits they implement.
pub use pytree_derive::{Collection, Leaf, Module, Pytree, Static, module_object, shaped, shapes};

// Items that pytree's other crates need besides the public API. These items are not for users.
#[doc(hidden)]
pub use crate::base::{half_text, per_thread};
#[doc(hidden)]
pub use crate::contract::pytree::not_rebuilt;
#[doc(hidden)]
pub use crate::references::level;

#[doc(hidden)]
pub use pytree_derive::tree_of_tokens as __tree_of_tokens;

/// The items that generated code uses. Not for users. The name contains a version, so code from an older derive does
/// not compile with items whose meaning has changed.
#[doc(hidden)]
pub mod __derive_0_1 {
    pub use crate::base::kind::{self, Collection, FieldKind, LeafKind};
    pub use crate::contract::pytree::{Pytree, PytreeOf, Single, Visit, Visitor};
    pub use crate::contract::unflatten::Unflattener;
    pub use crate::module::registry::{Module, ModuleType, Registry};
    pub use crate::module::{axes, field, object};
    pub use crate::node::leaf::{AnyLeaf, ArrayLeaf, ElementType, Leaf};
    pub use crate::node::shape;
    pub use crate::node::statics::{StaticBox, StaticData, StaticRef, StaticValue};
    pub use crate::trees::dynamic::Tree;
    pub use crate::trees::partition::Partition;
    pub use crate::trees::select_part::{SelectPart, select_partition};
    pub use crate::{__check_field as check_field, __leaf_is_pytree, __leaf_methods, TreeError};
}

/// Calls of functions with other leaves than those of the model: the model keeps its references and shared nodes.
///
/// A layer that replaces weights for one call, as mixed precision does, flattens the model with its references, and calls the
/// function with [`call_with_leaves`](boundary::call_with_leaves). A function that changes some leaves in place stores them
/// with [`unflatten_changed`](boundary::unflatten_changed).
pub mod boundary {
    #[doc(inline)]
    pub use crate::contract::handles::References;
    #[doc(inline)]
    pub use crate::references::boundary::{
        call_with_leaves, flatten_with_references, try_flatten_with_references, unflatten_changed,
    };

    // What transformations need besides. Not for users.
    #[doc(hidden)]
    pub use crate::references::boundary::{
        Attempts, BranchLeaf, Outcome, ReferencePlace, Visited, copy, flatten_any_with_references,
        flatten_as, flatten_visited, repeated, try_flatten_any_with_references,
        unflatten_with_new_references, unflatten_with_references,
    };
}

/// The depth of typed values.
pub mod depth {
    #[doc(inline)]
    pub use crate::contract::depth::with_stack;
}

/// The types that the fields of a module may have, as traits.
pub mod field {
    pub use crate::module::field::{HoldsArrays, ModuleField, ParamField, StateField};
    #[doc(hidden)]
    pub use crate::trees::dynamic::SameLeaf;

    // Public, because rustc shortens only the names of public items in its messages.
    pub use crate::module::field::mistakes::*;
}

/// The traits without the macros of the same names. The crate `pytree` adds its own macros, which generate other paths.
#[doc(hidden)]
pub mod traits {
    pub use crate::base::kind::Collection;
    pub use crate::contract::pytree::Pytree;
    pub use crate::module::registry::Module;
    pub use crate::node::insertion::InsertionOrder;
    pub use crate::node::leaf::Leaf;
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
