//! Leaves: the values of a pytree that have no children.
//!
//! A leaf is a number, a string, an array, a tensor or a value of a user's type. The types of leaves are compared only
//! where a certain type is required. This module contains no arithmetic.

mod array_info;
mod array_leaf;
mod arrays;
mod number;

use std::any::Any;
use std::fmt;

use half::{bf16, f16};
use ndarray::{Array, ArrayD, ArrayViewD, ArrayViewMutD, Dimension};
use pytree_base::for_each_element_type;

pub use self::array_info::{ArrayInfo, Element, MappedAxis};
pub use self::array_leaf::{ArrayLeaf, FillBytes, LeafError, ReadRegion};
pub(crate) use self::number::{Conversion, Number};
use crate::base::half_text::{write_bf16, write_f16};
use crate::base::text::{write_bool, write_elements, write_float, write_quoted};
use crate::node::compare::same;
use crate::node::shape::NodeShape;
pub use pytree_base::dtype::{ElementType, NumberKind};

/// A value of a pytree that has no children.
///
/// Numbers, strings, ndarray's owned arrays and tensors are leaves. `#[derive(Leaf)]` makes a user's type a leaf.
pub trait Leaf: Any + fmt::Debug + Send + Sync {
    /// Returns the leaf as a dynamically typed value.
    fn as_any(&self) -> &dyn Any;

    /// Returns the leaf as a mutable, dynamically typed value.
    fn as_any_mut(&mut self) -> &mut dyn Any;

    /// Returns a boxed copy of the leaf.
    fn clone_boxed(&self) -> Box<dyn Leaf>;

    /// Moves the leaf into `slot`, an `Option` of its type.
    ///
    /// # Errors
    /// Returns the leaf itself if `slot` is an `Option` of another type.
    fn move_into(self: Box<Self>, slot: &mut dyn Any) -> Result<(), Box<dyn Leaf>>;

    /// Returns the name of the leaf's type, for messages.
    fn type_name(&self) -> &'static str;

    /// Returns the node shape of the leaf in a treedef. The node shape stores the Rust type of the leaf.
    fn leaf_shape(&self) -> &'static NodeShape;

    /// Returns the inner leaf, if this leaf only wraps another leaf. Both leaves have the same elements.
    fn inner(&self) -> Option<&dyn Leaf> {
        None
    }

    /// Returns the inner leaf mutably; see [`inner`](Self::inner).
    fn inner_mut(&mut self) -> Option<&mut dyn Leaf> {
        None
    }

    /// Returns the leaf as an array, if it is an array or a number whose elements are known as bytes.
    #[inline]
    fn as_array(&self) -> Option<&dyn ArrayLeaf> {
        None
    }

    /// Returns the dtype and shape if the leaf is an array or a number.
    #[inline]
    fn array_info(&self) -> Option<ArrayInfo<&[usize]>> {
        self.as_array().map(ArrayLeaf::info)
    }

    /// Returns the axes that enclosing `vmap`s removed from the array, the innermost first. Inside of a `vmap`, an array is
    /// one example. Messages about shapes show the removed axes.
    fn mapped_axes(&self) -> Vec<MappedAxis> {
        Vec::new()
    }

    /// Returns the elements as numbers in row-major order, if the leaf is an array or a number, and its elements can
    /// currently be read. Comparisons of models and the search for NaNs use these numbers.
    ///
    /// `true` is one and `false` is zero. An integer beyond 2⁵³ is rounded to the nearest `f64`. The number of elements
    /// agrees with [`array_info`](Self::array_info).
    fn values(&self) -> Option<Vec<f64>> {
        self.as_array().and_then(array_leaf::values)
    }

    /// Returns the identity of the memory that holds the elements, if several leaves may share this memory.
    /// [`lint`](crate::tools::lint::lint) uses the identity to find leaves that share memory.
    fn storage_identity(&self) -> Option<usize> {
        None
    }

    /// Writes the leaf as Python's `repr` would, for displays of trees.
    ///
    /// # Errors
    /// The errors of the formatter.
    fn display(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl dyn Leaf {
    /// Returns the leaf as a `T`, if its type is `T`.
    pub fn downcast_ref<T: 'static>(&self) -> Option<&T> {
        self.as_any().downcast_ref()
    }

    /// Returns the leaf as a mutable `T`, if its type is `T`.
    pub fn downcast_mut<T: 'static>(&mut self) -> Option<&mut T> {
        self.as_any_mut().downcast_mut()
    }
}

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

/// Returns a number of any element type as an `f64`, or `None` if the value is not a number.
#[allow(clippy::cast_lossless, reason = "i64 and u64 are rounded")]
fn number(value: &dyn Any) -> Option<f64> {
    macro_rules! number_of {
        (integer $number:expr) => {
            $number as f64
        };
        ($kind:ident $number:expr) => {
            f64::from($number)
        };
    }
    macro_rules! attempt {
        ($([$kind:ident $dtype:ident $type:ty])*) => {
            $(if let Some(&number) = value.downcast_ref::<$type>() {
                return Some(number_of!($kind number));
            })*
        };
    }
    for_each_element_type!([attempt]);
    None
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
    if let Some(&value) = any.downcast_ref::<bf16>() {
        return write_bf16(f, value);
    }
    if let Some(&value) = any.downcast_ref::<f16>() {
        return write_f16(f, value);
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
for_each_element_type!([numbers]);

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

/// Returns Python's text for a float in an array, given the debug text `word` of the float.
fn float_text(element: ElementType, word: &str) -> Option<String> {
    let mut text = String::new();
    match element {
        ElementType::F32 => write_float(&mut text, &word.parse::<f32>().ok()?).ok()?,
        ElementType::F64 => write_float(&mut text, &word.parse::<f64>().ok()?).ok()?,
        ElementType::BF16 => write_bf16(&mut text, word.parse().ok()?).ok()?,
        ElementType::F16 => write_f16(&mut text, word.parse().ok()?).ok()?,
        _ => return None,
    }
    Some(text)
}

impl<T: Element, D: Dimension + Send + Sync + 'static> Leaf for Array<T, D> {
    __leaf_methods!();
    fn display(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Omits the shape, the strides and the layout, which ndarray's `Debug` writes after the elements.
        let text = format!("{self:?}");
        let text = text.split(", shape=[").next().unwrap_or(&text);
        write_elements(f, text, |word| float_text(T::TYPE, word))
    }
    #[inline]
    fn as_array(&self) -> Option<&dyn ArrayLeaf> {
        Some(self)
    }
    fn values(&self) -> Option<Vec<f64>> {
        self.iter().map(|element| number(element)).collect()
    }
}
__leaf_is_pytree!([T: Element, D: Dimension + Send + Sync + 'static] Array<T, D>);

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

/// A leaf of any type, for trees of mixed leaves.
pub struct AnyLeaf(Box<dyn Leaf>);

impl AnyLeaf {
    /// Wraps a leaf.
    pub fn new(leaf: impl Leaf) -> Self {
        Self(Box::new(leaf))
    }

    /// Wraps a boxed leaf.
    pub fn from_boxed(leaf: Box<dyn Leaf>) -> Self {
        Self(leaf)
    }

    /// Returns the leaf as a `T`, if its type is `T`.
    pub fn downcast_ref<T: 'static>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }

    /// Returns the leaf as an array view with elements of type `T`, if the leaf is a number of type `T`, or an owned
    /// `ndarray` array of this element type.
    pub fn array_view<T: Element>(&self) -> Option<ArrayViewD<'_, T>> {
        self.0.array_view()
    }

    /// Returns the leaf as a mutable array; see [`array_view`](#method.array_view).
    pub fn array_view_mut<T: Element>(&mut self) -> Option<ArrayViewMutD<'_, T>> {
        self.0.array_view_mut()
    }

    /// Replaces the array or number; see [`put_array`](#method.put_array).
    pub(crate) fn put_array<T: Element>(&mut self, array: ArrayD<T>) -> bool {
        self.0.put_array(array)
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

/// Compares leaves as [`diff`](crate::diff()) does. Arrays and numbers are compared by shape, dtype and elements, and
/// NaN equals NaN. Other leaves are compared by type and displayed text. A leaf whose elements cannot be read, as
/// inside a compiled function, is not equal to any leaf.
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
    fn as_array(&self) -> Option<&dyn ArrayLeaf> {
        self.0.as_array()
    }
    fn array_info(&self) -> Option<ArrayInfo<&[usize]>> {
        self.0.array_info()
    }
    fn mapped_axes(&self) -> Vec<MappedAxis> {
        self.0.mapped_axes()
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
