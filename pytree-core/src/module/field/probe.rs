//! Finds out which traits a type implements, without a compile error if the type does not implement a trait.
//!
//! rustc uses an associated item of [`Probe`] itself if the bounds of the item hold, and the item of [`Fallback`]
//! otherwise. So generated code can check whether a type implements a trait, and can use the trait if so.

#![allow(missing_docs, reason = "each item is documented at `Fallback`")]
#![allow(clippy::missing_errors_doc, reason = "as above")]

use std::cell::{Cell, RefCell};
use std::fmt;
use std::hash::BuildHasher;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::{Arc, Mutex, RwLock};

use crate::base::error::TreeError;
use crate::contract::pytree::{Pytree, Visitor};
use crate::contract::unflatten::Unflattener;
use crate::module::field::{HoldsArrays, ModuleField, ParamField, StateField};
use crate::node::leaf::{ArrayLeaf, Leaf};
use crate::node::statics::{StaticData, StaticOperations, StaticRef, StaticValue};

/// Tells which traits a type implements. rustc uses an associated item of [`Probe`] itself if the bounds of the item
/// hold, and the item of [`Fallback`] otherwise.
#[derive(Debug)]
pub struct Probe<T: ?Sized>(PhantomData<T>);

/// The items of [`Probe`] for types that do not implement the queried trait. The trait `Fallback` must be in scope.
pub trait Fallback {
    /// The queried type.
    type Value: ?Sized;
    /// Whether the type is a pytree.
    const IS_PYTREE: bool = false;
    /// Whether the type is a [`ModuleField`].
    const IS_MODULE: bool = false;
    /// Whether the type is a [`ParamField`].
    const IS_PARAM: bool = false;
    /// Whether the type is a [`StateField`].
    const IS_STATE: bool = false;
    /// Whether the type [holds arrays](HoldsArrays).
    const HOLDS_ARRAYS: bool = false;
    /// Whether the type is a [`StaticValue`].
    const IS_VALUE: bool = false;
    /// Whether the type is `PartialEq + Debug`, and implements the other traits that a treedef needs.
    const IS_DEBUG: bool = false;
    /// The group of types with messages of their own.
    const FAMILY: Family = Family::Other;
    /// Whether the type creates hashers, as `RandomState` does. A map has such a type as a type argument.
    const IS_HASHER: bool = false;

    /// Does nothing, because a compile error was reported for the field.
    fn visit<'a>(_: &'a Self::Value, _: &mut dyn Visitor<'a>) {}

    /// Returns false, because a compile error was reported for the field.
    fn __is_uniform() -> bool {
        false
    }

    /// Fails, because a compile error was reported for the field.
    ///
    /// # Errors
    /// Always.
    fn unflatten(_: &mut Unflattener<'_>) -> Result<Self::Value, TreeError>
    where
        Self::Value: Sized,
    {
        Err(not_a_field())
    }

    /// Returns a placeholder leaf, so that the generated code type-checks. Never runs, because a compile error was
    /// reported for the type.
    fn clone_boxed(_: &Self::Value) -> Box<dyn Leaf> {
        Box::new(false)
    }

    /// Returns the leaf as an array, if its type is an [`ArrayLeaf`].
    fn as_array(_: &Self::Value) -> Option<&dyn ArrayLeaf> {
        None
    }

    /// Panics, because a compile error was reported for the field.
    ///
    /// # Panics
    /// Always.
    fn clone_static(_: &Self::Value) -> Self::Value
    where
        Self::Value: Sized,
    {
        panic!("{}", not_a_field())
    }

    /// Returns the value that `StaticData` represents, if the type is a [`StaticValue`] that can be built from data.
    fn from_data(_: &StaticData) -> Option<Self::Value>
    where
        Self::Value: Sized,
    {
        None
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

impl<T: Pytree> Probe<T> {
    pub const IS_PYTREE: bool = true;
    pub fn visit<'a>(value: &'a T, visitor: &mut dyn Visitor<'a>) {
        value.visit(visitor);
    }
    pub fn unflatten(source: &mut Unflattener<'_>) -> Result<T, TreeError> {
        T::unflatten(source)
    }
    pub fn __is_uniform() -> bool {
        T::__is_uniform()
    }
}
impl<T: Leaf + Clone> Probe<T> {
    pub fn clone_boxed(leaf: &T) -> Box<dyn Leaf> {
        Box::new(leaf.clone())
    }
}
impl<T: ArrayLeaf> Probe<T> {
    pub fn as_array(leaf: &T) -> Option<&dyn ArrayLeaf> {
        Some(leaf)
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
    pub fn __as_static(self, value: &T) -> StaticRef<'_> {
        StaticRef::new(value)
    }
    pub fn __read_static(self, source: &mut Unflattener<'_>) -> Result<T, TreeError> {
        source.aux()
    }
    pub fn from_data(data: &StaticData) -> Option<T> {
        T::from_static_data(data)
    }
}
impl<T: BuildHasher> Probe<T> {
    pub const IS_HASHER: bool = true;
}
/// A group of types with messages of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Any other type.
    Other,
    /// `Arc` and `Rc`.
    Counted,
    /// `Cell`, `RefCell`, `Mutex` and `RwLock`.
    Cell,
    /// `usize` and `isize`.
    Size,
    /// Tuples.
    Tuple,
}

macro_rules! families {
    ($($family:ident: $([$($generics:tt)*] $type:ty),*;)*) => {$($(
        impl<$($generics)*> Probe<$type> {
            pub const FAMILY: Family = Family::$family;
        }
    )*)*};
}
families! {
    Counted: [T: ?Sized] Arc<T>, [T: ?Sized] Rc<T>;
    Cell: [T: ?Sized] Cell<T>, [T: ?Sized] RefCell<T>, [T: ?Sized] Mutex<T>, [T: ?Sized] RwLock<T>;
    Size: [] usize, [] isize;
    Tuple: [A, B] (A, B), [A, B, C] (A, B, C), [A, B, C, D] (A, B, C, D), [A, B, C, D, E] (A, B, C, D, E),
        [A, B, C, D, E, F] (A, B, C, D, E, F);
}
impl<T: PartialEq + Clone + fmt::Debug + Send + Sync + 'static> Probe<T> {
    pub const IS_DEBUG: bool = true;
}
impl<T: Clone + 'static> Probe<T> {
    pub fn clone_static(value: &T) -> T {
        value.clone()
    }
}

// Static values have three cases. In a call of a method, rustc prefers the method of `Probe` itself, then that of a trait of
// `Probe`, and then that of a trait of `&Probe`.
impl<T: ?Sized> Probe<T> {
    pub const NEW: Self = Self(PhantomData);
}

/// The methods of [`Probe`] for a type that is not a [`StaticValue`].
pub trait StaticFallback<T> {
    /// Returns the value as a static value.
    fn __as_static(self, value: &T) -> StaticRef<'_>;

    /// Returns the next static value.
    ///
    /// # Errors
    /// [`TreeError::StaticType`] if the value has another type.
    fn __read_static(self, source: &mut Unflattener<'_>) -> Result<T, TreeError>;
}
impl<T: PartialEq + Clone + fmt::Debug + Send + Sync + 'static> StaticFallback<T> for Probe<T> {
    fn __as_static(self, value: &T) -> StaticRef<'_> {
        StaticRef::with(value, const { &StaticOperations::of_debug::<T>() })
    }
    fn __read_static(self, source: &mut Unflattener<'_>) -> Result<T, TreeError> {
        source.aux_cloned()
    }
}
/// A compile error was reported for the field.
impl<T> StaticFallback<T> for &Probe<T> {
    fn __as_static(self, _: &T) -> StaticRef<'_> {
        StaticRef::new(&())
    }
    fn __read_static(self, _: &mut Unflattener<'_>) -> Result<T, TreeError> {
        Err(not_a_field())
    }
}
