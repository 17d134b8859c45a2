//! The windows of an array, and the offsets of their elements in memory. Windows are not copied: kernels read the
//! elements of each window from the array.

use std::ops::Range;

use pytree_base::bug::expect_some;

use crate::base::array::{Array, reserved, row_major_strides};
use crate::base::dtype::AbstractArray;
use crate::base::shape::{PerAxis, Shape};
use crate::loops::reduce_window::geometry::Window;
use crate::loops::sliding::Sliding;

/// The number of elements of windows that one thread reduces in a nanosecond.
const PER_NANOSECOND: usize = 10;

/// The windows of an array: `outer` subarrays, the axes over which windows slide, and `inner` neighbouring elements.
/// Each of the `inner` elements belongs to its own window.
pub(super) struct Windows {
    pub(super) outer: usize,
    axes: Vec<Axis>,
    pub(super) inner: usize,
    pub(super) shape: Shape,
}

/// An axis over which windows slide: its length, the distance in memory between neighbours, and the positions that each
/// window contains.
struct Axis {
    length: usize,
    stride: usize,
    ranges: Vec<Range<usize>>,
}

impl Windows {
    /// Creates the windows of an array. The result must not be empty.
    fn new(window: &Window, base_dilation: &[usize], info: &AbstractArray, result: &Shape) -> Self {
        let shape = &info.shape;
        let slides = |axis: usize| {
            window.sliding(axis, shape[axis], base_dilation[axis]) != window_of_one(shape[axis])
        };
        let rank = shape.len();
        let first = (0..rank).find(|&axis| slides(axis)).unwrap_or(0);
        let end = (0..rank)
            .rfind(|&axis| slides(axis))
            .map_or(0, |axis| axis + 1);
        let strides = row_major_strides(shape);
        let axis = |axis: usize| {
            let dilation = if shape[axis] > 1 {
                base_dilation[axis] as i128
            } else {
                i128::from(u64::MAX)
            };
            let range = |number: usize| {
                let start =
                    number as i128 * window.strides[axis] as i128 - window.padding[axis].0 as i128;
                let end = start + window.dimensions[axis] as i128;
                let position = |at: i128| {
                    let above = (at + dilation - 1).div_euclid(dilation);
                    usize::try_from(above).unwrap_or(0).min(shape[axis])
                };
                position(start)..position(end).max(position(start))
            };
            let mut ranges = reserved(result[axis]);
            ranges.extend((0..result[axis]).map(range));
            Axis {
                length: shape[axis],
                stride: strides[axis],
                ranges,
            }
        };
        Self {
            outer: shape[..first].iter().product(),
            axes: (first..end).map(axis).collect(),
            inner: shape[end..].iter().product(),
            shape: result.clone(),
        }
    }

    /// Returns the number of elements of one subarray. A subarray consists of all elements with the same indices on the
    /// axes before the first window axis.
    pub(super) fn array_length(&self) -> usize {
        self.axes.iter().map(|axis| axis.length).product::<usize>() * self.inner
    }

    /// Returns the number of positions of windows in one subarray. Each position has `inner` windows.
    pub(super) fn count(&self) -> usize {
        self.axes.iter().map(|axis| axis.ranges.len()).product()
    }

    /// A line is a set of windows whose positions differ only on the last window axis. Replaces `offsets` by the offsets
    /// of the elements of a line, in row-major order. The offset on the last window axis is not included.
    fn offsets_of_line(&self, mut line: usize, offsets: &mut Vec<usize>) {
        let leading = &self.axes[..self.axes.len().saturating_sub(1)];
        let mut rest: usize = leading.iter().map(|axis| axis.ranges.len()).product();
        offsets.clear();
        offsets.push(line / rest * self.array_length());
        line %= rest;
        for axis in leading {
            rest /= axis.ranges.len();
            let range = axis.ranges[line / rest].clone();
            line %= rest;
            let count = offsets.len();
            for place in 0..count {
                let offset = offsets[place];
                offsets.extend(range.clone().map(|at| offset + at * axis.stride));
            }
            offsets.drain(..count);
        }
    }

    /// Estimates the nanoseconds that one thread takes.
    pub(super) fn nanoseconds(&self) -> usize {
        let size: usize = self
            .axes
            .iter()
            .map(|axis| axis.ranges.iter().map(Range::len).max().unwrap_or(0))
            .product();
        self.outer * self.count() * self.inner * size / PER_NANOSECOND
    }
}

/// Some neighbouring windows of an array, and the offsets of their elements.
#[derive(Default)]
pub(super) struct Cursor {
    /// The line of the windows, and the offsets of the line's elements on all axes except the last.
    line: Option<usize>,
    leading: Vec<usize>,
    /// The number of elements of a window on the last axis.
    width: usize,
    /// The offsets of the elements, relative to the position of a window on the last axis. All windows of a line with the same number of
    /// elements have the same offsets.
    offsets: Vec<usize>,
    positions: Vec<usize>,
}

impl Cursor {
    /// Moves to a window and those after it that have the same offsets, at most `most` windows in all. Returns the offsets of the
    /// elements in row-major order, and for each window the number to add to each offset.
    pub(super) fn move_along(
        &mut self,
        number: usize,
        most: usize,
        windows: &Windows,
    ) -> (&[usize], &[usize]) {
        self.positions.clear();
        let Some(last) = windows.axes.last() else {
            // Each element is a window.
            self.offsets.clear();
            self.offsets.push(0);
            self.positions.push(number * windows.array_length());
            return (&self.offsets, &self.positions);
        };
        let line = number / last.ranges.len();
        let ranges = &last.ranges[number % last.ranges.len()..];
        let width = ranges[0].len();
        let same_line = self.line == Some(line);
        if !same_line {
            windows.offsets_of_line(line, &mut self.leading);
            self.line = Some(line);
        }
        if !same_line || self.width != width {
            self.width = width;
            self.offsets.clear();
            for &offset in &self.leading {
                self.offsets
                    .extend((0..width).map(|at| offset + at * last.stride));
            }
        }
        let same = ranges
            .iter()
            .take(most)
            .take_while(|range| range.len() == width);
        self.positions
            .extend(same.map(|range| range.start * last.stride));
        (&self.offsets, &self.positions)
    }
}

/// Returns the geometry of an axis over which windows do not slide: each element is a window.
fn window_of_one(length: usize) -> Sliding {
    Sliding {
        length,
        dilation: 1,
        padding: (0, 0),
        size: 1,
        window_dilation: 1,
        stride: 1,
    }
}

/// Returns the windows of an array. If the result is empty, returns the result instead.
pub(super) fn windows_of(
    window: &Window,
    base_dilation: Option<&[usize]>,
    info: &AbstractArray,
) -> Result<Windows, Array> {
    let ones: PerAxis = info.shape.iter().map(|_| 1).collect();
    let base_dilation = base_dilation.unwrap_or(&ones);
    let shape = window.result_shape(&info.shape, base_dilation);
    let shape = expect_some(shape, "windows that the shape rule accepts");
    if shape.contains(&0) {
        return Err(Array::zeros(&AbstractArray::new(info.dtype, shape)));
    }
    Ok(Windows::new(window, base_dilation, info, &shape))
}
