//! What a field may be: the kinds, enforced by trait dispatch on the field's type.
//!
//! A type says by [`ModuleField`], [`ParamField`], [`StateField`] and [`StaticValue`] which fields it can
//! be; containers pass through what they hold, and [`HoldsArrays`] keeps arrays out of static fields.
//! The spelling of the type is never looked at, so an alias can't mislead.
//!
//! The derive asks [`Probe`], which answers for any type at all, and puts the answers to the traits at the
//! end of this file, each of which is one mistake with its mend. Each is implemented for every type by a
//! blanket `impl` that rustc is told not to recommend: so a wrong field is exactly one error, which names
//! the whole type of the field. The code that visits a field asks the probe too, since a field that is
//! already reported must not be reported again.
//!
//! A leaf type of another crate joins by [`leaf_field!`](crate::leaf_field).

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::marker::PhantomData;

use indexmap::IndexMap;
use ndarray::{Array, ArrayBase, Dimension, RawData};

use crate::dynamic::Tree;
use crate::error::TreeError;
use crate::leaf::{AnyLeaf, Element, Leaf};
use crate::partition::Partition;
use crate::pytree::{Pytree, Visitor};
use crate::shape::NodeShape;
use crate::shared::Shared;
use crate::statics::{StaticOperations, StaticRef, StaticValue};
use crate::unflatten::Unflattener;

/// A type that a field without attribute can have in a module: a module or a container of modules.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a module",
    label = "a module, or a container of modules, is needed here",
    note = "derive `Module` on it, or bound the type parameter by `Module`; a field that holds a leaf needs `#[param]`, `#[state]` or `#[r#static]`"
)]
pub trait ModuleField: Pytree {}

/// A type that a `#[param]` field can have: a leaf that gradients exist of, or a container of such.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a parameter",
    label = "a leaf that gradients exist of is needed here",
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

/// A type whose values belong among the leaves and therefore never into a static field, though they may
/// be comparable: arrays, modules, containers of them.
pub trait HoldsArrays {}

/// Lets a leaf type be a field.
///
/// `leaf_field!(param Tensor)` lets it be a parameter or a state, `leaf_field!(state Key)` a state only. In both cases it
/// can't be static. Generic types put their generics first: `leaf_field!(state [T: Element] Grid<T>)`.
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

macro_rules! implement {
    ($field:ident for $($type:ty),* $(,)?) => {$(impl $field for $type {})*};
}
implement!(ParamField for f32, f64);
implement!(StateField for bool, i8, i16, i32, i64, u8, u16, u32, u64, f32, f64);
implement!(HoldsArrays for AnyLeaf);

impl<D: Dimension + Send + Sync + 'static> ParamField for Array<f32, D> {}
impl<D: Dimension + Send + Sync + 'static> ParamField for Array<f64, D> {}
impl<T: Element, D: Dimension + Send + Sync + 'static> StateField for Array<T, D> {}
impl<S: RawData, D> HoldsArrays for ArrayBase<S, D> {}

impl<L: Leaf + Clone + ParamField> ParamField for Tree<L> {}
impl<L: Leaf + Clone> StateField for Tree<L> {}
impl<L> HoldsArrays for Tree<L> {}
impl<M: 'static, L: Leaf + Clone + ParamField> ParamField for Partition<M, L> {}
impl<M: 'static, L: Leaf + Clone> StateField for Partition<M, L> {}
impl<M, L> HoldsArrays for Partition<M, L> {}

/// Containers are what they hold. They are not recommended, so that messages name the whole type.
macro_rules! pass_through {
    ($($field:ident)*) => {$(
        #[diagnostic::do_not_recommend]
        impl<T: $field> $field for Vec<T> {}
        #[diagnostic::do_not_recommend]
        impl<T: $field, const N: usize> $field for [T; N] {}
        #[diagnostic::do_not_recommend]
        impl<T: $field> $field for Option<T> {}
        #[diagnostic::do_not_recommend]
        impl<T: $field> $field for Box<T> {}
        #[diagnostic::do_not_recommend]
        impl<T: $field + Send + Sync> $field for Shared<T> {}
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

// A tuple holds arrays if any of its elements does, which bounds can't say: the derive asks for each
// type that is written inside of the field's.
impl<T: HoldsArrays> HoldsArrays for Vec<T> {}
impl<T: HoldsArrays, const N: usize> HoldsArrays for [T; N] {}
impl<T: HoldsArrays> HoldsArrays for Option<T> {}
impl<T: HoldsArrays + ?Sized> HoldsArrays for Box<T> {}
impl<T: HoldsArrays + ?Sized> HoldsArrays for std::sync::Arc<T> {}
impl<T: HoldsArrays> HoldsArrays for Shared<T> {}
impl<K, T: HoldsArrays> HoldsArrays for BTreeMap<K, T> {}
impl<K, T: HoldsArrays, S> HoldsArrays for HashMap<K, T, S> {}
impl<K, T: HoldsArrays, S> HoldsArrays for IndexMap<K, T, S> {}
impl<T: HoldsArrays + ?Sized> HoldsArrays for &T {}

/// Answers what a type is, whatever it is: an associated item of [`Probe`] itself is found where its
/// bounds hold, and the item of [`Fallback`] elsewhere.
#[derive(Debug)]
pub struct Probe<T: ?Sized>(PhantomData<T>);

/// The answers of [`Probe`] for types that are not what is asked; must be in scope where it is asked.
pub trait Fallback {
    /// The type that is asked about.
    type Value: ?Sized;
    /// Whether it is a pytree.
    const IS_PYTREE: bool = false;
    /// Whether it is a [`ModuleField`].
    const IS_MODULE: bool = false;
    /// Whether it is a [`ParamField`].
    const IS_PARAM: bool = false;
    /// Whether it is a [`StateField`].
    const IS_STATE: bool = false;
    /// Whether it [holds arrays](HoldsArrays).
    const HOLDS_ARRAYS: bool = false;
    /// Whether it is a [`StaticValue`].
    const IS_VALUE: bool = false;
    /// Whether it is `Eq + Hash`, and all that a treedef needs besides.
    const IS_HASH: bool = false;
    /// Whether it is `PartialEq + Debug`, and all that a treedef needs besides.
    const IS_DEBUG: bool = false;

    /// Does nothing: a compile error was reported for the field.
    fn visit<'a>(_: &'a Self::Value, _: &mut dyn Visitor<'a>) {}

    /// Fails: a compile error was reported for the field.
    ///
    /// # Errors
    /// Always.
    fn unflatten(_: &mut Unflattener<'_>) -> Result<Self::Value, TreeError>
    where
        Self::Value: Sized,
    {
        Err(not_a_field())
    }

    /// Something else: a compile error was reported for the type.
    fn clone_boxed(_: &Self::Value) -> Box<dyn Leaf> {
        Box::new(false)
    }

    /// The value as a static one, if it is a [`StaticValue`].
    fn by_value(_: &Self::Value) -> Option<StaticRef<'_>> {
        None
    }

    /// The value as a static one, if it is `Eq + Hash`.
    fn by_hash(_: &Self::Value) -> Option<StaticRef<'_>> {
        None
    }

    /// The value as a static one, if it is `PartialEq + Debug`.
    fn by_debug(_: &Self::Value) -> Option<StaticRef<'_>> {
        None
    }

    /// Fails: a compile error was reported for the field.
    ///
    /// # Errors
    /// Always.
    fn unflatten_static(_: &mut Unflattener<'_>) -> Result<Self::Value, TreeError>
    where
        Self::Value: Sized,
    {
        Err(not_a_field())
    }
}
impl<T: ?Sized> Fallback for Probe<T> {
    type Value = T;
}

fn not_a_field() -> TreeError {
    TreeError::Build {
        node: "field",
        reason: "its type cannot be a field".to_owned(),
    }
}

#[allow(missing_docs, reason = "each item is documented at `Fallback`")]
#[allow(clippy::missing_errors_doc, reason = "as above")]
mod answers {
    use super::*;

    impl<T: Pytree> Probe<T> {
        pub const IS_PYTREE: bool = true;
        pub fn visit<'a>(value: &'a T, visitor: &mut dyn Visitor<'a>) {
            value.visit(visitor);
        }
        pub fn unflatten(source: &mut Unflattener<'_>) -> Result<T, TreeError> {
            T::unflatten(source)
        }
    }
    impl<T: Leaf + Clone> Probe<T> {
        pub fn clone_boxed(leaf: &T) -> Box<dyn Leaf> {
            Box::new(leaf.clone())
        }
    }
    impl<T: ModuleField> Probe<T> {
        pub const IS_MODULE: bool = true;
    }
    impl<T: ParamField> Probe<T> {
        pub const IS_PARAM: bool = true;
    }
    impl<T: StateField> Probe<T> {
        pub const IS_STATE: bool = true;
    }
    impl<T: HoldsArrays + ?Sized> Probe<T> {
        pub const HOLDS_ARRAYS: bool = true;
    }
    impl<T: StaticValue> Probe<T> {
        pub const IS_VALUE: bool = true;
        pub fn by_value(value: &T) -> Option<StaticRef<'_>> {
            Some(StaticRef::new(value))
        }
    }
    impl<T: Eq + Hash + Clone + fmt::Debug + Send + Sync + 'static> Probe<T> {
        pub const IS_HASH: bool = true;
        pub fn by_hash(value: &T) -> Option<StaticRef<'_>> {
            let operations = const { &StaticOperations::of_hash::<T>() };
            Some(StaticRef::with(value, operations))
        }
    }
    impl<T: PartialEq + Clone + fmt::Debug + Send + Sync + 'static> Probe<T> {
        pub const IS_DEBUG: bool = true;
        pub fn by_debug(value: &T) -> Option<StaticRef<'_>> {
            let operations = const { &StaticOperations::of_debug::<T>() };
            Some(StaticRef::with(value, operations))
        }
    }
    impl<T: Clone + 'static> Probe<T> {
        pub fn unflatten_static(source: &mut Unflattener<'_>) -> Result<T, TreeError> {
            source.aux()
        }
    }
}

/// A value by each of the ways in which its type may be static; the first that is there counts.
pub type StaticWays<'a> = [Option<StaticRef<'a>>; 3];

/// The value as a static one; if its type can't be, which is a compile error, it is shown as `()`.
pub fn as_static(ways: StaticWays<'_>) -> StaticRef<'_> {
    let [by_value, by_hash, by_debug] = ways;
    by_value
        .or(by_hash)
        .or(by_debug)
        .unwrap_or_else(|| StaticRef::new(&()))
}

/// The shapes of a derived type: one for a struct, one a variant for an enum.
pub trait NodeShapes: 'static {
    /// The shapes, in declaration order.
    const SHAPES: &'static [NodeShape];
}

/// The mistakes, one trait each. `CHECK` is named with what [`Probe`] answered, and exists for every type
/// unless the answer is that the mistake was made.
macro_rules! mistakes {
    ($(
        $(#[doc = $doc:literal])*
        $name:ident { message: $message:literal, label: $label:literal, $(note: $note:literal),+ $(,)? }
    )*) => {$(
        $(#[doc = $doc])*
        #[diagnostic::on_unimplemented(message = $message, label = $label, $(note = $note),+)]
        pub trait $name<const MISTAKEN: bool> {
            /// Exists where the mistake was not made.
            const CHECK: () = ();
        }
        #[diagnostic::do_not_recommend]
        impl<T: ?Sized> $name<false> for T {}
    )*};
}

mistakes! {
    /// Float arrays without attribute.
    ArrayNeedsKind {
        message: "a field of type `{Self}` needs a kind",
        label: "is it trained or not?",
        note: "write `#[param]` on the field if it is trained, `#[state]` or `#[state(Collection)]` if it is not",
    }
    /// Float numbers without attribute.
    NumberNeedsKind {
        message: "a field of type `{Self}` needs a kind",
        label: "is it trained or not?",
        note: "write `#[param]` on the field if it is trained, `#[state]` or `#[state(Collection)]` if it is a leaf that is not, `#[r#static]` if it is part of the model's structure",
    }
    /// Leaves that no gradient exists of, without attribute.
    LeafNeedsKind {
        message: "a field of type `{Self}` needs a kind",
        label: "a leaf that is not trained says so",
        note: "write `#[state]` or `#[state(Collection)]` on the field",
    }
    /// Integers and flags without attribute.
    IntegerNeedsKind {
        message: "a field of type `{Self}` needs a kind",
        label: "is it a leaf or part of the structure?",
        note: "write `#[state]` or `#[state(Collection)]` on the field if it is a leaf, `#[r#static]` if it is part of the model's structure",
    }
    /// Anything else without attribute.
    StaticNeedsKind {
        message: "a field of type `{Self}` needs a kind",
        label: "not a module, nor a container of modules",
        note: "write `#[r#static]` on the field if it is part of the model's structure",
        note: "if it holds modules or leaves, derive `Module` on its type; a field that mixes modules and leaves must be split",
    }
    /// A module as a parameter.
    ParamOfModule {
        message: "`{Self}` is a module and cannot be `#[param]`",
        label: "its own fields have kinds",
        note: "remove `#[param]`: a module needs no attribute",
    }
    /// An integer as a parameter.
    ParamNotFloat {
        message: "`{Self}` cannot be `#[param]`: it is not differentiable",
        label: "no gradient of it exists",
        note: "write `#[state]` instead; a number that is part of the model's structure is `#[r#static]`",
    }
    /// Anything else as a parameter.
    ParamNotLeaf {
        message: "`{Self}` cannot be `#[param]`: it is not a leaf",
        label: "parameters are tensors, float arrays, float numbers, and containers of them",
        note: "write `#[r#static]` instead if it is part of the model's structure",
        note: "a type of your own becomes a module by `#[derive(Module)]`, a plain container by `#[derive(Pytree)]`",
    }
    /// A module as a state.
    StateOfModule {
        message: "`{Self}` is a module and cannot be `#[state]`",
        label: "its own fields have kinds",
        note: "remove `#[state]`: a module needs no attribute",
    }
    /// Anything else as a state.
    StateNotLeaf {
        message: "`{Self}` cannot be `#[state]`: it is not a leaf",
        label: "states are tensors, arrays, numbers, and containers of them",
        note: "write `#[r#static]` instead if it is part of the model's structure",
        note: "a type of your own becomes a leaf by `#[derive(Leaf)]`, a plain container by `#[derive(Pytree)]`",
    }
    /// A module as a static field.
    StaticOfModule {
        message: "`{Self}` is a module and cannot be `#[r#static]`: it holds arrays",
        label: "would be invisible to every transformation",
        note: "remove `#[r#static]`: a module needs no attribute",
    }
    /// Arrays in a static field.
    StaticOfArrays {
        message: "`{Self}` cannot be `#[r#static]`: it holds arrays",
        label: "arrays are leaves",
        note: "write `#[param]` instead if it is trained, `#[state]` or `#[state(Collection)]` if it is not",
    }
    /// Arrays in a type that derives `Static`.
    StaticTypeOfArrays {
        message: "`{Self}` cannot be in a static type: it holds arrays",
        label: "arrays are leaves",
        note: "derive `Module` or `Pytree` instead of `Static`",
    }
    /// A static field that can't be compared.
    StaticNotComparable {
        message: "`{Self}` cannot be `#[r#static]`: a treedef cannot compare it",
        label: "needs `Static`",
        note: "write `#[derive(Static, Clone)]` on its type, or `#[derive(Clone, PartialEq, Eq, Hash, Debug)]`; it must be `Send + Sync` too",
        note: "instead of a closure, use a function pointer: `fn(&Tensor) -> Tensor`",
    }
    /// A field of a plain container that is not a pytree.
    ChildNotPytree {
        message: "`{Self}` is not a pytree",
        label: "a field of a pytree is a pytree",
        note: "derive `Pytree`, `Module` or `Leaf` on its type, or write `#[r#static]` on the field",
    }
}
