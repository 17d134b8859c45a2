//! Arrays of ndarray 0.17 as leaves, and arrays and numbers as views of dynamic dimension: the feature `ndarray`.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use ndarray::{Array, ArrayBase, ArrayD, ArrayViewD, ArrayViewMutD, Dimension, IxDyn, RawData};
use pytree_base::dtype::ElementType;

use crate::base::half_text::{write_bf16, write_f16};
use crate::base::leaf_types::for_each_leaf_type;
use crate::base::text::{write_bool, write_float};
use crate::module::field::{HoldsArrays, ParamField, StateField};
use crate::node::leaf::{
    AnyLeaf, ArrayInfo, ArrayLeaf, Element, Leaf, LeafError, ReadRegion, number,
};

/// Runs a block for each dimension that an array may have, with the type `$dimension`.
macro_rules! each_dimension {
    ($dimension:ident => $block:block) => {
        each_dimension!($dimension => $block Ix2 Ix1 IxDyn Ix0 Ix3 Ix4 Ix5 Ix6);
    };
    ($dimension:ident => $block:block $($name:ident)*) => {$({
        type $dimension = ndarray::$name;
        $block
    })*};
}

impl dyn Leaf {
    /// Returns the leaf as an array view with elements of type `T`, if the leaf is a number of this type, or an owned
    /// `ndarray` array of this element type. The array may have a fixed rank of at most six, or a dynamic rank.
    pub fn array_view<T: Element>(&self) -> Option<ArrayViewD<'_, T>> {
        if let Some(inner) = self.inner() {
            return inner.array_view();
        }
        each_dimension!(D => {
            if let Some(array) = self.downcast_ref::<Array<T, D>>() {
                return Some(array.view().into_dyn());
            }
        });
        self.downcast_ref::<T>()
            .map(|number| ndarray::aview0(number).into_dyn())
    }

    /// Returns the leaf as a mutable array; see [`array_view`](#method.array_view).
    pub fn array_view_mut<T: Element>(&mut self) -> Option<ArrayViewMutD<'_, T>> {
        if self.inner().is_some() {
            return self.inner_mut()?.array_view_mut();
        }
        each_dimension!(D => {
            if self.as_any().is::<Array<T, D>>() {
                let array = self.downcast_mut::<Array<T, D>>()?;
                return Some(array.view_mut().into_dyn());
            }
        });
        let number = self.downcast_mut::<T>()?;
        ArrayViewMutD::from_shape(IxDyn(&[]), std::slice::from_mut(number)).ok()
    }

    /// Replaces the array or number of this leaf; see [`array_view`](#method.array_view). Returns false, and changes
    /// nothing, if the leaf has another number of axes or another element type.
    pub(crate) fn put_array<T: Element>(&mut self, array: ArrayD<T>) -> bool {
        if self.inner().is_some() {
            return self.inner_mut().is_some_and(|inner| inner.put_array(array));
        }
        each_dimension!(D => {
            if let Some(place) = self.downcast_mut::<Array<T, D>>() {
                let array = array.into_dimensionality();
                return array.map(|array| *place = array).is_ok();
            }
        });
        let number = array.into_dimensionality::<ndarray::Ix0>();
        match (self.downcast_mut::<T>(), number) {
            (Some(place), Ok(number)) => {
                *place = number.into_scalar();
                true
            }
            _ => false,
        }
    }
}

impl ArrayInfo {
    /// Returns an array of ndarray with this dtype and shape. `read` writes its elements.
    ///
    /// # Errors
    /// The error of `read`, or an error if ndarray has no elements of the dtype: those of half-precision floats need the feature `half`.
    pub fn ndarray(&self, read: &mut ReadRegion<'_>) -> Result<Box<dyn Leaf>, LeafError> {
        macro_rules! array {
            ($([$kind:ident $dtype:ident $element:ty])*) => {
                match self.element {
                    $(ElementType::$dtype => self.ndarray_of::<$element>(read),)*
                    #[allow(unreachable_patterns, reason = "with the feature `half`, there is a row for each dtype")]
                    other => Err(format!("ndarray has no elements of the dtype {other}; enable the feature `half` of pytree-core").into()),
                }
            };
        }
        for_each_leaf_type!([array])
    }

    fn ndarray_of<T: Element>(
        &self,
        read: &mut ReadRegion<'_>,
    ) -> Result<Box<dyn Leaf>, LeafError> {
        let whole: Vec<_> = self.shape.iter().map(|&length| 0..length).collect();
        let elements = T::filled(self.len(), &mut |bytes| read(&whole, bytes))?;
        Ok(Box::new(ArrayD::from_shape_vec(&self.shape[..], elements)?))
    }
}

/// Rewrites the bools and floats in the debug text of an array as in Python. `float` returns the Python text of a word
/// that is a float, and `None` for any other word.
fn write_elements(
    f: &mut impl fmt::Write,
    array: &str,
    float: impl Fn(&str) -> Option<String>,
) -> fmt::Result {
    let is_part = |character: char| character.is_ascii_alphanumeric() || "+-.".contains(character);
    let mut rest = array;
    while let Some(start) = rest.find(is_part) {
        let (before, word) = rest.split_at(start);
        let (word, after) = word.split_at(word.find(|c| !is_part(c)).unwrap_or(word.len()));
        f.write_str(before)?;
        match word {
            "true" => write_bool(f, true)?,
            "false" => write_bool(f, false)?,
            word => match float(word) {
                Some(written) => f.write_str(&written)?,
                None => f.write_str(word)?,
            },
        }
        rest = after;
    }
    f.write_str(rest)
}

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
    crate::__leaf_methods!();
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
crate::__leaf_is_pytree!([T: Element, D: Dimension + Send + Sync + 'static] Array<T, D>);

impl<T: Element, D: Dimension + Send + Sync + 'static> ArrayLeaf for Array<T, D> {
    #[inline]
    fn info(&self) -> ArrayInfo<&[usize]> {
        ArrayInfo {
            element: T::TYPE,
            shape: self.shape(),
        }
    }
    fn bytes(&self) -> Result<Cow<'_, [u8]>, LeafError> {
        if let Some(elements) = self.as_slice() {
            return Ok(Cow::Borrowed(T::bytes_of(elements)?));
        }
        let mut bytes = Vec::new();
        for element in self {
            bytes.extend_from_slice(T::bytes_of(std::slice::from_ref(element))?);
        }
        Ok(Cow::Owned(bytes))
    }
    fn refilled(&self, read: &mut ReadRegion<'_>) -> Result<Box<dyn Leaf>, LeafError> {
        let whole: Vec<Range<usize>> = self.shape().iter().map(|&length| 0..length).collect();
        let elements = T::filled(self.len(), &mut |bytes| read(&whole, bytes))?;
        Ok(Box::new(Self::from_shape_vec(self.raw_dim(), elements)?))
    }
}

impl AnyLeaf {
    /// Returns the leaf as an array view with elements of type `T`, if the leaf is a number of type `T`, or an owned
    /// `ndarray` array of this element type.
    pub fn array_view<T: Element>(&self) -> Option<ArrayViewD<'_, T>> {
        (self as &dyn Leaf).array_view()
    }

    /// Returns the leaf as a mutable array; see [`array_view`](#method.array_view).
    pub fn array_view_mut<T: Element>(&mut self) -> Option<ArrayViewMutD<'_, T>> {
        (self as &mut dyn Leaf).array_view_mut()
    }

    /// Replaces the array or number; see [`put_array`](#method.put_array).
    pub(crate) fn put_array<T: Element>(&mut self, array: ArrayD<T>) -> bool {
        (self as &mut dyn Leaf).put_array(array)
    }
}

/// Allows arrays of floats as parameters.
macro_rules! parameters {
    (bool $type:ty) => {};
    (integer $type:ty) => {};
    ($float:ident $type:ty) => {
        impl<D: Dimension + Send + Sync + 'static> ParamField for Array<$type, D> {}
    };
    ($([$kind:ident $dtype:ident $type:ty])*) => {$(parameters!($kind $type);)*};
}
for_each_leaf_type!([parameters]);
impl<T: Element, D: Dimension + Send + Sync + 'static> StateField for Array<T, D> {}
impl<S: RawData, D> HoldsArrays for ArrayBase<S, D> {}
