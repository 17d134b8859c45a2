//! The types that fields may have, and the traits that enforce them.
//!
//! A type implements [`ModuleField`], [`ParamField`], [`StateField`] or [`StaticValue`] if a field of this type may be
//! a module, a parameter, a state or static. A container implements the trait if its content does. [`HoldsArrays`]
//! excludes arrays from static fields. The derive does not compare the names of types, so a type alias cannot mislead
//! the derive, with the exception described at [`HoldsArrays`].
//!
//! The derive calls `check_field!`, which queries [`Probe`] for the type of each field, finds the mistakes with
//! [`check::mistakes`], and passes them to the traits of `mistakes`. Each of these traits represents one mistake and its fix, and is implemented for every type by a blanket `impl` that is
//! marked `do_not_recommend`. rustc then reports a mistake as exactly one error, which names the type of the field. If
//! the field's type contains a type that no attribute allows, such as an `Arc`, a closure or a type without a derive,
//! the error names this inner type instead. The generated code that visits a field also queries the probe. So this code
//! causes no second error.
//!
//! [`leaf_field!`](crate::leaf_field) allows a type with a handwritten `Leaf` as a field.

pub mod check;
pub mod mistakes;
mod probe;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasher, Hash};
use std::marker::PhantomData;
use std::sync::Arc;

use indexmap::IndexMap;

use crate::base::leaf_types::for_each_leaf_type;
use crate::contract::pytree::Pytree;
use crate::node::leaf::{AnyLeaf, Leaf};
use crate::node::shape::NodeShape;
use crate::node::statics::StaticValue;
use crate::references::reference::{Ref, WeakRef};
use crate::references::shared::{Shared, WeakShared};
use crate::trees::dynamic::Tree;
use crate::trees::partition::Partition;

pub use mistakes::*;
pub use probe::{Fallback, Family, Probe, StaticFallback};

/// A type that a field without an attribute can have in a module: a module or a container of modules.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a module",
    label = "a module, or a container of modules, is needed here",
    note = "write `#[derive(Module)]` on the type, or add the bound `Module` to the type parameter; if the field is a leaf, write `#[param]` or `#[state]` on it, and if it is part of the structure, `#[r#static]`"
)]
pub trait ModuleField: Pytree {}

/// A type that a `#[param]` field can have: a leaf with a gradient, or a container of such leaves.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a parameter",
    label = "a leaf that has a gradient is needed here",
    note = "parameters are tensors, float arrays, float numbers, and containers of them"
)]
pub trait ParamField: Pytree {}

/// A type that a `#[state]` field can have: a leaf, or a container of leaves.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a state",
    label = "a leaf is needed here",
    note = "states are tensors, arrays, numbers, types that derive `Leaf`, and containers of them"
)]
pub trait StateField: Pytree {}

/// A type whose values are leaves and must not be in a static field, even if the values can be compared. These types
/// are arrays, modules, shared nodes (their sharing would be lost), references (their values change), and containers of
/// these types.
///
/// A tuple holds arrays if any of its elements does. Trait bounds cannot express this, so the derive checks each type
/// that is written in the field's type. The derive does not see the types inside an alias of a tuple or inside a user's
/// struct.
pub trait HoldsArrays {}

/// Allows a leaf type as a field, if [`Leaf`] is implemented for it by hand. `#[derive(Leaf)]` allows the type itself: as a state, and with
/// `#[leaf(param)]` as a parameter, too.
///
/// `leaf_field!(param Tensor)` allows `Tensor` as a parameter or a state. `leaf_field!(state Key)` allows `Key` as a
/// state only. Neither type can be static. Generic types put their generics first:
/// `leaf_field!(state [T: Element] Grid<T>)`.
#[macro_export]
macro_rules! leaf_field {
    (param [$($generics:tt)*] $leaf:ty) => {
        impl<$($generics)*> $crate::field::ParamField for $leaf {}
        $crate::leaf_field!(state [$($generics)*] $leaf);
    };
    (state [$($generics:tt)*] $leaf:ty) => {
        impl<$($generics)*> $crate::field::StateField for $leaf {}
        impl<$($generics)*> $crate::field::HoldsArrays for $leaf {}
    };
    ($kind:ident $leaf:ty) => {
        $crate::leaf_field!($kind [] $leaf);
    };
}

macro_rules! fields {
    ($([$kind:ident $dtype:ident $type:ty])*) => {$(
        impl StateField for $type {}
        parameter!($kind $type);
    )*};
}
/// Allows floats as parameters.
macro_rules! parameter {
    (bool $type:ty) => {};
    (integer $type:ty) => {};
    ($float:ident $type:ty) => {
        impl ParamField for $type {}
    };
}
for_each_leaf_type!([fields]);
impl HoldsArrays for AnyLeaf {}

impl<L: Leaf + Clone + ParamField> ParamField for Tree<L> {}
impl<L: Leaf + Clone> StateField for Tree<L> {}
impl<L> HoldsArrays for Tree<L> {}
impl<M: 'static, L: Leaf + Clone + ParamField> ParamField for Partition<M, L> {}
impl<M: 'static, L: Leaf + Clone> StateField for Partition<M, L> {}
/// The leaves keep their kinds in the `M`.
#[diagnostic::do_not_recommend]
impl<M: ModuleField, L: Leaf + Clone> ModuleField for Partition<M, L> {}
impl<M, L> HoldsArrays for Partition<M, L> {}

/// Implements a field trait for containers whose contents implement it. With `do_not_recommend`, error messages name
/// the whole type of a field instead of its content.
macro_rules! pass_through {
    ($($field:ident)*) => {$(
        #[diagnostic::do_not_recommend]
        impl<T: $field> $field for Vec<T> {}
        #[diagnostic::do_not_recommend]
        impl<T: $field> $field for VecDeque<T> {}
        #[diagnostic::do_not_recommend]
        impl<T: $field, const N: usize> $field for [T; N] {}
        #[diagnostic::do_not_recommend]
        impl<T: $field> $field for Option<T> {}
        #[diagnostic::do_not_recommend]
        impl<T: $field> $field for Box<T> {}
        #[diagnostic::do_not_recommend]
        impl<T: $field + Send + Sync> $field for Shared<T> {}
        #[diagnostic::do_not_recommend]
        impl<T: $field + Send + Sync> $field for WeakShared<T> {}
        #[diagnostic::do_not_recommend]
        impl<T: $field + Send + Sync> $field for Ref<T> {}
        #[diagnostic::do_not_recommend]
        impl<T: $field + Send + Sync> $field for WeakRef<T> {}
        #[diagnostic::do_not_recommend]
        impl<K: StaticValue + Ord, T: $field> $field for BTreeMap<K, T> {}
        #[diagnostic::do_not_recommend]
        impl<K: StaticValue + Ord + Hash, T: $field, S: BuildHasher + Default + 'static> $field for HashMap<K, T, S> {}
        #[diagnostic::do_not_recommend]
        impl<K: StaticValue + Eq + Hash, T: $field, S: BuildHasher + Default + 'static> $field for IndexMap<K, T, S> {}
        #[diagnostic::do_not_recommend]
        impl<T: ?Sized + 'static> $field for PhantomData<T> {}
        pass_through_tuples! { $field
            () (A) (A B) (A B C) (A B C D) (A B C D E) (A B C D E F) (A B C D E F G) (A B C D E F G H)
            (A B C D E F G H I) (A B C D E F G H I J) (A B C D E F G H I J K) (A B C D E F G H I J K L)
        }
    )*};
}
macro_rules! pass_through_tuples {
    ($field:ident $(($($name:ident)*))*) => {$(
        #[diagnostic::do_not_recommend]
        impl<$($name: $field),*> $field for ($($name,)*) {}
    )*};
}
pass_through!(ModuleField ParamField StateField);

impl<T: HoldsArrays> HoldsArrays for Vec<T> {}
impl<T: HoldsArrays> HoldsArrays for VecDeque<T> {}
impl<T: HoldsArrays, const N: usize> HoldsArrays for [T; N] {}
impl<T: HoldsArrays> HoldsArrays for Option<T> {}
impl<T: HoldsArrays + ?Sized> HoldsArrays for Box<T> {}
impl<T: HoldsArrays + ?Sized> HoldsArrays for Arc<T> {}
impl<T> HoldsArrays for Shared<T> {}
impl<T> HoldsArrays for WeakShared<T> {}
impl<T> HoldsArrays for Ref<T> {}
impl<T> HoldsArrays for WeakRef<T> {}
impl<K, T: HoldsArrays> HoldsArrays for BTreeMap<K, T> {}
impl<K, T: HoldsArrays, S> HoldsArrays for HashMap<K, T, S> {}
impl<K, T: HoldsArrays, S> HoldsArrays for IndexMap<K, T, S> {}
impl<T: HoldsArrays + ?Sized> HoldsArrays for &T {}

/// The shapes of a derived type. A struct has one shape, and an enum has one shape for each variant.
pub trait NodeShapes: 'static {
    /// The shapes, in declaration order.
    const SHAPES: &'static [NodeShape];
}
