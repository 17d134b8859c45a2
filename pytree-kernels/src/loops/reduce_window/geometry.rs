//! The sizes of windows and the distances between them.

use crate::base::shape::{PerAxis, Shape};
use crate::loops::sliding::Sliding;

/// Windows that slide over an array. Each list has one number for each axis of the array.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    /// The length of a window along each axis.
    pub dimensions: PerAxis,
    /// The distance between neighbouring windows.
    pub strides: PerAxis,
    /// The number of padding elements before and after the elements of the array. Padding elements are not reduced.
    pub padding: PerAxis<(isize, isize)>,
}

impl Window {
    /// Returns the geometry along axis `axis`. The axis has `length` elements, which are `dilation` apart.
    pub fn sliding(&self, axis: usize, length: usize, dilation: usize) -> Sliding {
        Sliding {
            length,
            dilation,
            padding: self.padding[axis],
            size: self.dimensions[axis],
            window_dilation: 1,
            stride: self.strides[axis],
        }
    }

    /// Returns the shape of the result, which has one element for each window. The elements of axis `axis` are
    /// `dilation[axis]` apart. Returns `None` if the windows do not fit the array.
    pub fn result_shape(&self, shape: &[usize], dilation: &[usize]) -> Option<Shape> {
        let lists = [&self.dimensions[..], &self.strides, dilation];
        let is_whole = self.padding.len() == shape.len()
            && lists
                .iter()
                .all(|list| list.len() == shape.len() && !list.contains(&0));
        let counts = || {
            let axes = shape.iter().enumerate();
            axes.map(|(axis, &length)| self.sliding(axis, length, dilation[axis]).count())
                .collect()
        };
        is_whole.then(counts).flatten()
    }
}
