//! A convolution without gaps as the kernels see it: its rows, its arrays and their strides.
//!
//! The kernels read windows row by row. A row consists of runs of neighbouring elements of the input, so the input is
//! arranged in one of two orders. In the order [`Rows::Windows`], the features are neighbours, and a row is a window.
//! In the order [`Rows::Elements`], the examples are neighbours, and a row has one element of each window.
use smallvec::SmallVec;

/// The contents of a row of the matrix of windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rows {
    /// A row is a window. The input is `[batch, space…, features]`, the kernel `[space…, in, out]` and the result
    /// `[batch, space…, out]`.
    Windows,
    /// A row has one element of each window. The input is `[features, space…, batch]`, the kernel `[in, space…, out]`
    /// and the result `[space…, batch, out]`.
    Elements,
}

/// One spatial axis of a phase. Element `e` of row `r` is at the position `base + r · row_step + e · element_step`. An
/// element outside of the axis is 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct WindowAxis {
    /// The length of the axis, and the distance in memory between neighbours.
    pub(super) length: usize,
    pub(super) stride: usize,
    pub(super) base: isize,
    pub(super) rows: usize,
    pub(super) row_step: usize,
    pub(super) elements: usize,
    pub(super) element_step: usize,
}

/// The spatial axes of a phase: at least one axis.
pub(super) type WindowAxes = SmallVec<[WindowAxis; 2]>;

impl WindowAxis {
    /// Returns an axis with one window of one element.
    pub(super) fn single(stride: usize) -> Self {
        Self {
            length: 1,
            stride,
            base: 0,
            rows: 1,
            row_step: 1,
            elements: 1,
            element_step: 1,
        }
    }

    /// Returns the position of an element of a row. Returns `None` if the position is outside of the axis.
    pub(super) fn position(&self, row: usize, element: usize) -> Option<usize> {
        let at = self.start(row) + (element * self.element_step).cast_signed();
        usize::try_from(at).ok().filter(|&at| at < self.length)
    }

    /// Returns the position of the first element of a row, which may be before the axis.
    pub(super) fn start(&self, row: usize) -> isize {
        self.base + (row * self.row_step).cast_signed()
    }
}

/// The arrays of a phase.
#[derive(Clone, Copy)]
pub(super) struct Operands<'a, T> {
    /// The input: `[outer of all groups, space…, inner of all groups]`.
    pub(super) input: &'a [T],
    /// The kernel. The last axis of the kernel has the features of the result.
    pub(super) kernel: &'a [T],
}

/// A phase of a convolution, in the order that the kernels expect.
pub(super) struct Problem {
    pub(super) axes: WindowAxes,
    pub(super) groups: usize,
    /// The distance in the input between neighbouring groups.
    pub(super) group_stride: usize,
    /// The length of the outer axis in each group, and the distance between neighbours.
    pub(super) outer: usize,
    pub(super) outer_stride: usize,
    /// The length of the inner axis in each group, and in all groups.
    pub(super) inner: usize,
    pub(super) inner_total: usize,
    /// The number of features of the result, in all groups.
    pub(super) features: usize,
}

impl Problem {
    /// Returns the number of rows of a group.
    pub(super) fn rows(&self) -> usize {
        self.outer * self.axes.iter().map(|axis| axis.rows).product::<usize>()
    }

    /// Returns the number of runs of a row. Each run has [`inner`](Self::inner) neighbouring elements.
    pub(super) fn elements(&self) -> usize {
        self.axes.iter().map(|axis| axis.elements).product()
    }

    /// Returns the number of multiplications.
    pub(super) fn work(&self) -> usize {
        self.rows() * self.elements() * self.inner * self.features
    }

    /// Returns whether each group has a single feature in the input and in the result.
    pub(super) fn is_depthwise(&self) -> bool {
        self.groups > 1
            && self.inner == 1
            && self.features == self.groups
            && self.features == self.inner_total
    }
}
