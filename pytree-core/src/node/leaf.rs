//! Leaves: the values at the ends of a pytree.
//!
//! A leaf is anything that is not a node: a number, a string, an array, a tensor, a user's own type.
//! Leaves are compared by type only where one type was asked for; nothing here does arithmetic.

mod array_info;

use std::any::Any;
use std::fmt;

use ndarray::{Array, ArrayViewD, ArrayViewMutD, Dimension};

pub use self::array_info::{ArrayInfo, Element, ElementType};
use crate::base::text::write_quoted;
use crate::node::compare::same;
use crate::node::shape::NodeShape;

/// A value at the end of a pytree.
///
/// Numbers, strings, ndarray's owned arrays and tensors are leaves; users' types become leaves by
/// `#[derive(Leaf)]`.
pub trait Leaf: Any + fmt::Debug + Send + Sync {
    /// The leaf as a dynamically typed value.
    fn as_any(&self) -> &dyn Any;

    /// The leaf as a dynamically typed value, to be changed in place.
    fn as_any_mut(&mut self) -> &mut dyn Any;

    /// A copy of the leaf, boxed.
    fn clone_boxed(&self) -> Box<dyn Leaf>;

    /// Moves the leaf into `slot`, an `Option` of its type; gives it back if the slot is of another type.
    ///
    /// # Errors
    /// The leaf itself, if `slot` holds another type.
    fn move_into(self: Box<Self>, slot: &mut dyn Any) -> Result<(), Box<dyn Leaf>>;

    /// The name of its type, for messages.
    fn type_name(&self) -> &'static str;

    /// The shape of the leaf in a treedef, which remembers its type.
    fn leaf_shape(&self) -> &'static NodeShape;

    /// The leaf in it, if it does nothing but hold one: then its elements are those of that leaf.
    fn inner(&self) -> Option<&dyn Leaf> {
        None
    }

    /// As [`inner`](Self::inner), to be changed in place.
    fn inner_mut(&mut self) -> Option<&mut dyn Leaf> {
        None
    }

    /// Element type and shape, if it is an array or a number.
    fn array_info(&self) -> Option<ArrayInfo> {
        None
    }

    /// The elements as numbers in row-major order, if it is an array or a number whose values can be read now: what
    /// comparisons of models and the search for values that are not finite look at.
    ///
    /// `true` is one and `false` is zero. An integer beyond 2⁵³ becomes the nearest `f64`. The length is that of
    /// [`array_info`](Self::array_info).
    fn values(&self) -> Option<Vec<f64>> {
        None
    }

    /// What tells the memory of its elements from that of others, if several leaves may hold the same: by it a
    /// lint finds leaves that are one array.
    fn storage_identity(&self) -> Option<usize> {
        None
    }

    /// Writes the leaf as Python's `repr` would: what displays of trees show.
    ///
    /// # Errors
    /// Those of the formatter.
    fn display(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl dyn Leaf {
    /// The leaf as a `T`, if it is one.
    pub fn downcast_ref<T: 'static>(&self) -> Option<&T> {
        self.as_any().downcast_ref()
    }

    /// The leaf as a `T` to be changed in place, if it is one.
    pub fn downcast_mut<T: 'static>(&mut self) -> Option<&mut T> {
        self.as_any_mut().downcast_mut()
    }

    /// The leaf as an array of `T` of any number of axes, if it is one of ndarray's owned arrays of up
    /// to six axes, or a number.
    pub fn array_view<T: Element>(&self) -> Option<ArrayViewD<'_, T>> {
        if let Some(inner) = self.inner() {
            return inner.array_view();
        }
        macro_rules! attempt {
            ($($dimension:ty),*) => {$(
                if let Some(array) = self.downcast_ref::<Array<T, $dimension>>() {
                    return Some(array.view().into_dyn());
                }
            )*};
        }
        attempt!(
            ndarray::Ix2,
            ndarray::Ix1,
            ndarray::IxDyn,
            ndarray::Ix0,
            ndarray::Ix3,
            ndarray::Ix4,
            ndarray::Ix5,
            ndarray::Ix6
        );
        self.downcast_ref::<T>()
            .map(|number| ndarray::aview0(number).into_dyn())
    }

    /// As [`array_view`](#method.array_view), to be changed in place.
    pub fn array_view_mut<T: Element>(&mut self) -> Option<ArrayViewMutD<'_, T>> {
        if self.inner().is_some() {
            return self.inner_mut()?.array_view_mut();
        }
        macro_rules! attempt {
            ($($dimension:ty),*) => {$(
                if self.as_any().is::<Array<T, $dimension>>() {
                    let array = self.downcast_mut::<Array<T, $dimension>>()?;
                    return Some(array.view_mut().into_dyn());
                }
            )*};
        }
        attempt!(
            ndarray::Ix2,
            ndarray::Ix1,
            ndarray::IxDyn,
            ndarray::Ix0,
            ndarray::Ix3,
            ndarray::Ix4,
            ndarray::Ix5,
            ndarray::Ix6
        );
        let number = self.downcast_mut::<T>()?;
        ArrayViewMutD::from_shape(ndarray::IxDyn(&[]), std::slice::from_mut(number)).ok()
    }
}

/// The methods of [`Leaf`] that are the same for every sized, cloneable type.
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
        fn type_name(&self) -> &'static str {
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
            fn unflatten(source: &mut $crate::Unflattener<'_>) -> ::std::result::Result<Self, $crate::TreeError> {
                source.leaf()
            }
        }
        impl<$($generics)*> $crate::PytreeOf<$leaf> for $leaf $(where $($bounds)*)? {
            fn each_leaf<'__a, __F: ::std::ops::FnMut(&'__a Self)>(&'__a self, visit: &mut __F) {
                visit(self);
            }
            fn map_leaves<__F: ::std::ops::FnMut(&Self) -> Self>(&self, function: &mut __F) -> Self {
                function(self)
            }
        }
    };
}

/// A number of any of the element types, as an `f64`.
fn number(value: &dyn Any) -> Option<f64> {
    macro_rules! attempt {
        ($($exact:ty),*; $($rounded:ty),*) => {
            $(if let Some(&number) = value.downcast_ref::<$exact>() {
                return Some(f64::from(number));
            })*
            $(if let Some(&number) = value.downcast_ref::<$rounded>() {
                return Some(number as f64);
            })*
        };
    }
    attempt!(f32, f64, bool, i8, i16, i32, u8, u16, u32; i64, u64);
    None
}

macro_rules! numbers {
    ($($number:ty => $element:ident),*) => {$(
        impl Element for $number {
            const TYPE: ElementType = ElementType::$element;
        }
        impl Leaf for $number {
            __leaf_methods!();
            fn array_info(&self) -> Option<ArrayInfo> {
                Some(ArrayInfo { element: ElementType::$element, shape: Vec::new() })
            }
            fn values(&self) -> Option<Vec<f64>> {
                number(self).map(|value| vec![value])
            }
        }
        __leaf_is_pytree!([] $number);
    )*};
}
numbers!(i8 => I8, i16 => I16, i32 => I32, i64 => I64, u8 => U8, u16 => U16, u32 => U32, u64 => U64, f32 => F32, f64 => F64, bool => Bool);

macro_rules! opaque {
    ($($leaf:ty),*) => {$(
        impl Leaf for $leaf {
            __leaf_methods!();
        }
        __leaf_is_pytree!([] $leaf);
    )*};
}
opaque!(usize, isize, char);

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

impl<T: Element, D: Dimension + Send + Sync + 'static> Leaf for Array<T, D> {
    __leaf_methods!();
    fn display(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What ndarray's `Debug` adds, strides and layout, is of no interest in a tree.
        let text = format!("{self:?}");
        f.write_str(text.split(", shape=[").next().unwrap_or(&text))
    }
    fn array_info(&self) -> Option<ArrayInfo> {
        Some(ArrayInfo {
            element: T::TYPE,
            shape: self.shape().to_vec(),
        })
    }
    fn values(&self) -> Option<Vec<f64>> {
        self.iter().map(|element| number(element)).collect()
    }
}
__leaf_is_pytree!([T: Element, D: Dimension + Send + Sync + 'static] Array<T, D>);

/// A leaf that may be missing: what the leaves of a tree become where `None` is a leaf too. It is shown as what it
/// holds, as in Python, and is an array where it holds one.
///
/// As a value of its own an `Option` is a node: this is for trees whose leaves were chosen to be options, by
/// [`Tree::none_as_leaves`](crate::Tree::none_as_leaves).
impl<L: Leaf + Clone> Leaf for Option<L> {
    __leaf_methods!();
    fn inner(&self) -> Option<&dyn Leaf> {
        self.as_ref().map(|leaf| leaf as &dyn Leaf)
    }
    fn inner_mut(&mut self) -> Option<&mut dyn Leaf> {
        self.as_mut().map(|leaf| leaf as &mut dyn Leaf)
    }
    fn array_info(&self) -> Option<ArrayInfo> {
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

/// A leaf of any type: what trees of mixed leaves hold.
pub struct AnyLeaf(Box<dyn Leaf>);

impl AnyLeaf {
    /// Wraps a leaf; a leaf that is already an [`AnyLeaf`] is not wrapped twice.
    pub fn new(leaf: impl Leaf) -> Self {
        Self(Box::new(leaf))
    }

    /// Wraps a boxed leaf.
    pub fn from_boxed(leaf: Box<dyn Leaf>) -> Self {
        Self(leaf)
    }

    /// The leaf as a `T`, if it is one.
    pub fn downcast_ref<T: 'static>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }

    /// The leaf as an array of `T`, if it is one of ndarray's owned arrays or a number.
    pub fn array_view<T: Element>(&self) -> Option<ArrayViewD<'_, T>> {
        self.0.array_view()
    }

    /// As [`array_view`](#method.array_view), to be changed in place.
    pub fn array_view_mut<T: Element>(&mut self) -> Option<ArrayViewMutD<'_, T>> {
        self.0.array_view_mut()
    }
}

impl Clone for AnyLeaf {
    fn clone(&self) -> Self {
        Self(self.0.clone_boxed())
    }
}
impl fmt::Display for AnyLeaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display(f)
    }
}
impl fmt::Debug for AnyLeaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
/// As [`diff`](crate::diff()) compares leaves: arrays and numbers by shape, element type and elements, of which NaN equals
/// NaN, and other leaves by their type and what they display. What cannot be read, as inside of a compiled function,
/// equals nothing.
impl PartialEq for AnyLeaf {
    fn eq(&self, other: &Self) -> bool {
        same(&*self.0, &*other.0)
    }
}
impl Leaf for AnyLeaf {
    fn as_any(&self) -> &dyn Any {
        self.0.as_any()
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self.0.as_any_mut()
    }
    fn clone_boxed(&self) -> Box<dyn Leaf> {
        self.0.clone_boxed()
    }
    fn move_into(self: Box<Self>, slot: &mut dyn Any) -> Result<(), Box<dyn Leaf>> {
        if let Some(slot) = slot.downcast_mut::<Option<Self>>() {
            *slot = Some(*self);
            return Ok(());
        }
        self.0.move_into(slot)
    }
    fn type_name(&self) -> &'static str {
        self.0.type_name()
    }
    fn leaf_shape(&self) -> &'static NodeShape {
        self.0.leaf_shape()
    }
    fn inner(&self) -> Option<&dyn Leaf> {
        self.0.inner()
    }
    fn inner_mut(&mut self) -> Option<&mut dyn Leaf> {
        self.0.inner_mut()
    }
    fn array_info(&self) -> Option<ArrayInfo> {
        self.0.array_info()
    }
    fn values(&self) -> Option<Vec<f64>> {
        self.0.values()
    }
    fn storage_identity(&self) -> Option<usize> {
        self.0.storage_identity()
    }
    fn display(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display(f)
    }
}
