//! Leaves: the values of a pytree that have no children.
//!
//! A leaf is a number, a string, an array, a tensor or a value of a user's type. The types of leaves are compared only
//! where a certain type is required. This module contains no arithmetic.

mod any_leaf;
mod array_info;
mod elements;
mod number;
mod traits;

use std::any::Any;
use std::fmt;

pub use self::any_leaf::AnyLeaf;
pub use self::array_info::{ArrayInfo, Element, FillBytes, LeafError, MappedAxis};
pub(crate) use self::number::{Conversion, Number};
pub(crate) use self::traits::number;
pub use self::traits::{ArrayLeaf, Leaf, ReadRegion};
#[cfg(feature = "half")]
use crate::base::half_text::{write_bf16, write_f16};
use crate::base::leaf_types::for_each_leaf_type;
use crate::base::text::{write_bool, write_float, write_quoted};
pub use pytree_base::dtype::{ElementType, NumberKind};

/// Generates the methods of [`Leaf`] that are the same for every sized type that implements `Clone`.
#[macro_export]
#[doc(hidden)]
macro_rules! __leaf_methods {
    () => {
        $crate::__leaf_methods!(but_clone_boxed);
        fn clone_boxed(&self) -> ::std::boxed::Box<dyn $crate::leaf::Leaf> {
            ::std::boxed::Box::new(::std::clone::Clone::clone(self))
        }
    };
    (but_clone_boxed) => {
        fn as_any(&self) -> &dyn ::std::any::Any {
            self
        }
        fn as_any_mut(&mut self) -> &mut dyn ::std::any::Any {
            self
        }
        fn move_into(
            self: ::std::boxed::Box<Self>,
            slot: &mut dyn ::std::any::Any,
        ) -> ::std::result::Result<(), ::std::boxed::Box<dyn $crate::leaf::Leaf>> {
            match slot.downcast_mut::<::std::option::Option<Self>>() {
                ::std::option::Option::Some(slot) => {
                    *slot = ::std::option::Option::Some(*self);
                    ::std::result::Result::Ok(())
                }
                ::std::option::Option::None => ::std::result::Result::Err(self),
            }
        }
        fn type_name(&self) -> &'static ::std::primitive::str {
            ::std::any::type_name::<Self>()
        }
        fn leaf_shape(&self) -> &'static $crate::shape::NodeShape {
            const { &$crate::shape::NodeShape::leaf::<Self>() }
        }
    };
}

/// Implements [`Pytree`](crate::Pytree) and [`PytreeOf`](crate::PytreeOf) for a type that is a leaf.
#[macro_export]
#[doc(hidden)]
macro_rules! __leaf_is_pytree {
    ([$($generics:tt)*] $leaf:ty $(where $($bounds:tt)*)?) => {
        impl<$($generics)*> $crate::Pytree for $leaf $(where $($bounds)*)? {
            fn visit<'__a>(&'__a self, visitor: &mut dyn $crate::Visitor<'__a>) {
                visitor.leaf(self);
            }
            // Inlined, because a leaf that is returned in a `Result` in memory costs as much as the rest of its move.
            #[inline]
            fn unflatten(source: &mut $crate::Unflattener<'_>) -> ::std::result::Result<Self, $crate::TreeError> {
                source.leaf()
            }
            #[inline]
            fn __single(&self) -> $crate::__derive_0_1::Single<'_> {
                $crate::__derive_0_1::Single::Leaf($crate::Leaf::array_info(self))
            }
            #[inline]
            fn __is_uniform() -> ::std::primitive::bool {
                true
            }
        }
        impl<$($generics)*> $crate::PytreeOf<$leaf> for $leaf $(where $($bounds)*)? {
            #[inline]
            fn __is_plain() -> ::std::primitive::bool {
                true
            }
            fn each_leaf<'__a, __F: ::std::ops::FnMut(&'__a Self)>(&'__a self, visit: &mut __F) {
                visit(self);
            }
            fn each_pair<'__a, __F: ::std::ops::FnMut(&'__a Self, &'__a Self)>(
                &'__a self,
                other: &'__a Self,
                visit: &mut __F,
            ) -> ::std::primitive::bool {
                visit(self, other);
                true
            }
            fn map_leaves<__F: ::std::ops::FnMut(&Self) -> Self>(&self, function: &mut __F) -> Self {
                function(self)
            }
        }
    };
}

/// Writes a number as Python does.
fn display_number<T: fmt::Debug + 'static>(value: &T, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let any: &dyn Any = value;
    if let Some(&value) = any.downcast_ref() {
        return write_bool(f, value);
    }
    if let Some(value) = any.downcast_ref::<f32>() {
        return write_float(f, value);
    }
    #[cfg(feature = "half")]
    if let Some(value) = any.downcast_ref::<half::bf16>() {
        return write_bf16(f, value.to_f32());
    }
    #[cfg(feature = "half")]
    if let Some(value) = any.downcast_ref::<half::f16>() {
        return write_f16(f, value.to_f32());
    }
    match any.downcast_ref::<f64>() {
        Some(value) => write_float(f, value),
        None => fmt::Debug::fmt(value, f),
    }
}

macro_rules! numbers {
    ($([$kind:ident $dtype:ident $number:ty])*) => {$(
        impl Leaf for $number {
            __leaf_methods!();
            #[inline]
            fn as_array(&self) -> Option<&dyn ArrayLeaf> {
                Some(self)
            }
            fn values(&self) -> Option<Vec<f64>> {
                number(self).map(|value| vec![value])
            }
            fn display(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                display_number(self, f)
            }
        }
        __leaf_is_pytree!([] $number);
    )*};
}
for_each_leaf_type!([numbers]);

macro_rules! opaque {
    ($($leaf:ty),*) => {$(
        impl Leaf for $leaf {
            __leaf_methods!();
        }
        __leaf_is_pytree!([] $leaf);
    )*};
}
opaque!(usize, isize);

impl Leaf for char {
    __leaf_methods!();
    fn display(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_quoted(f, self.encode_utf8(&mut [0; 4]))
    }
}
__leaf_is_pytree!([] char);

impl Leaf for String {
    __leaf_methods!();
    fn display(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_quoted(f, self)
    }
}
__leaf_is_pytree!([] String);

impl Leaf for &'static str {
    __leaf_methods!();
    fn display(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_quoted(f, self)
    }
}
__leaf_is_pytree!([] &'static str);

/// Implements [`Leaf`] for an `Option` of a leaf, for trees in which `None` is a leaf. The leaf is displayed as its
/// content, as in Python, and is an array if its content is an array.
///
/// Only the trees that [`Tree::none_as_leaves`](crate::Tree::none_as_leaves) returns have such leaves. In all other
/// values an `Option` is a node.
impl<L: Leaf + Clone> Leaf for Option<L> {
    __leaf_methods!();
    fn inner(&self) -> Option<&dyn Leaf> {
        self.as_ref().map(|leaf| leaf as &dyn Leaf)
    }
    fn inner_mut(&mut self) -> Option<&mut dyn Leaf> {
        self.as_mut().map(|leaf| leaf as &mut dyn Leaf)
    }
    fn array_info(&self) -> Option<ArrayInfo<&[usize]>> {
        self.as_ref()?.array_info()
    }
    fn values(&self) -> Option<Vec<f64>> {
        self.as_ref()?.values()
    }
    fn storage_identity(&self) -> Option<usize> {
        self.as_ref()?.storage_identity()
    }
    fn display(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Some(leaf) => leaf.display(f),
            None => f.write_str("None"),
        }
    }
}
