//! The windows of a convolution, and the meaning of the axes of its arrays.

use crate::base::shape::{AxisList, PerAxis, Shape};
use crate::loops::sliding::Sliding;

/// Slides windows over the input and multiplies each window by the kernel, like `lax.conv_general_dilated`.
///
/// The operands are the input and the kernel. The kernel is not reversed. Windows slide over the spatial axes, and each
/// list has one number for each spatial axis.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Convolution {
    /// The distance between neighbouring windows.
    pub strides: PerAxis,
    /// The number of zeros before and after the input. A negative number removes elements.
    pub padding: PerAxis<(isize, isize)>,
    /// The distance between neighbouring elements of the input. The gaps are filled with zeros.
    pub input_dilation: PerAxis,
    /// The distance between neighbouring elements of a window.
    pub kernel_dilation: PerAxis,
    /// The number of groups of input features. Each group is convolved with its own part of the kernel's output
    /// features.
    pub feature_groups: usize,
    /// The number of groups of examples. Each group is convolved with its own part of the kernel's output features.
    pub batch_groups: usize,
    /// The meaning of the axes.
    pub numbers: DimensionNumbers,
}

/// The meaning of the axes of input, kernel and result.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DimensionNumbers {
    /// The axes of the input.
    pub input: Axes,
    /// The axes of the kernel.
    pub kernel: Axes,
    /// The axes of the result.
    pub result: Axes,
}

/// The positions of the axes of one array.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Axes {
    /// The batch axis. For a kernel, the axis of the output features.
    pub outer: usize,
    /// The feature axis. For a kernel, the axis of the input features.
    pub features: usize,
    /// The spatial axes, in the same order for all arrays.
    pub space: AxisList,
}

impl Axes {
    /// Returns the axes with the outer axis and the feature axis swapped.
    #[must_use]
    pub fn swapped(&self) -> Self {
        Self {
            outer: self.features,
            features: self.outer,
            space: self.space.clone(),
        }
    }
}

impl Convolution {
    /// Returns the geometry along the spatial axis with the index `axis`.
    pub(crate) fn sliding(&self, axis: usize, input: &[usize], kernel: &[usize]) -> Sliding {
        Sliding {
            length: input[self.numbers.input.space[axis]],
            dilation: self.input_dilation[axis],
            padding: self.padding[axis],
            size: kernel[self.numbers.kernel.space[axis]],
            window_dilation: self.kernel_dilation[axis],
            stride: self.strides[axis],
        }
    }

    /// Returns the geometry along all spatial axes.
    pub fn slidings(&self, input: &[usize], kernel: &[usize]) -> Vec<Sliding> {
        let axes = 0..self.strides.len();
        axes.map(|axis| self.sliding(axis, input, kernel)).collect()
    }

    /// Returns the shape of the result, or `None` if the padding does not fit the input.
    pub fn result_shape(&self, input: &[usize], kernel: &[usize]) -> Option<Shape> {
        let numbers = &self.numbers;
        let mut shape = Shape::from(input);
        shape[numbers.result.outer] = input[numbers.input.outer] / self.batch_groups;
        shape[numbers.result.features] = kernel[numbers.kernel.outer];
        for (sliding, &axis) in self
            .slidings(input, kernel)
            .iter()
            .zip(&numbers.result.space)
        {
            shape[axis] = sliding.count()?;
        }
        Some(shape)
    }
}
