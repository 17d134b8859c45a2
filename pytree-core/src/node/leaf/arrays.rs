//! Leaves as `ndarray` arrays of dynamic dimension.

use ndarray::{Array, ArrayD, ArrayViewD, ArrayViewMutD, IxDyn};

use super::{Element, Leaf};

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
