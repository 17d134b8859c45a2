//! The evaluation of a convolution: selects a kernel, and arranges the arrays in the memory order that the kernel
//! expects.
//!
//! The kernels read windows row by row. A row consists of runs of neighbouring elements of the input, so the input is
//! arranged in one of two orders. In the order [`Rows::Windows`], the features are neighbours, and a row is a window.
//! In the order [`Rows::Elements`], the examples are neighbours, and a row has one element of each window.
//!
//! The layouts of usual models need no copy. A forward pass has the order `Windows`. A derivative with respect to the
//! kernel has the order `Elements`, because its features are the examples of the input.
//!
//! If the input has a dilation, the windows are divided into phases. A phase reads no zeros between elements, so these
//! zeros are never multiplied.

use std::borrow::Cow;
use std::sync::Arc;

use pytree_core::bug::expect_some;
use smallvec::{SmallVec, smallvec};

use super::{Axes, Convolution, DimensionNumbers, depthwise, packed};
use crate::base::array::{Array, give_back, reused, row_major_strides};
use crate::base::dtype::AbstractArray;
use crate::base::shape::{AxisList, PerAxis, Shape};
use crate::base::threads;
use crate::primitives::dot::matrix_product::{Factor, LoopAxis, Loops, joined, multiply};
use crate::primitives::shape::{add_by_strides, gather};
use crate::primitives::sliding::{Phase, Progression};

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
    fn single(stride: usize) -> Self {
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

/// A phase of a convolution, in the order that the kernels expect.
pub(super) struct Problem<'a, T> {
    /// The input: `[outer of all groups, space…, inner of all groups]`.
    pub(super) input: &'a [T],
    /// The kernel. Its last axis has the features of the result.
    pub(super) kernel: &'a [T],
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

impl<T: Factor> Problem<'_, T> {
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

    /// Writes the result to `target`.
    fn run(&self, rows: Rows, target: &mut [T]) {
        match (rows, self.is_depthwise()) {
            (Rows::Windows, true) => depthwise::convolve(self, target),
            (Rows::Elements, true) => depthwise::kernel_gradient(self, target),
            (Rows::Windows, false) => packed::windows_by_kernel(self, target),
            (Rows::Elements, false) => packed::elements_by_kernel(self, target),
        }
    }

    /// Returns whether each group has a single feature in the input and in the result.
    fn is_depthwise(&self) -> bool {
        self.groups > 1
            && self.inner == 1
            && self.features == self.groups
            && self.features == self.inner_total
    }
}

/// Computes a convolution of operands that the shape rule accepts.
pub(super) fn convolve<T: Factor>(
    convolution: &Convolution,
    input: &Array,
    kernel: &Array,
) -> Array {
    let shape = convolution.result_shape(input.shape(), kernel.shape());
    let shape = expect_some(shape, "padding that the shape rule accepts");
    let no_terms = input.info.is_empty() || kernel.info.is_empty();
    if no_terms || shape.contains(&0) {
        return Array::zeros(&AbstractArray::new(T::DTYPE, &shape));
    }
    let product = single_product(convolution, [input.shape(), kernel.shape(), &shape]);
    if let Some((loops, offset)) = product {
        let mut target = reused::<T>(shape.iter().product());
        let input = &input.elements::<T>()[offset..];
        multiply(
            &loops,
            input,
            kernel.elements(),
            &mut target,
            threads::count(),
        );
        return Array::new(&shape, target);
    }
    let strides = row_major_strides(input.shape());
    let axes = &convolution.numbers.input;
    let rows = if strides[axes.features] <= strides[axes.outer] {
        Rows::Windows
    } else {
        Rows::Elements
    };
    Order::new(rows, &convolution.numbers).convolve::<T>(convolution, input, kernel, &shape)
}

impl Convolution {
    /// Returns the phases of each spatial axis.
    fn phases(&self, input: &[usize], kernel: &[usize], result: &[usize]) -> Vec<Vec<Phase>> {
        let counts = self.numbers.result.space.iter().map(|&axis| result[axis]);
        let slidings = self.slidings(input, kernel);
        slidings
            .iter()
            .zip(counts)
            .map(|(sliding, count)| sliding.phases(count))
            .collect()
    }
}

/// Returns the loops of a convolution that is one matrix product of its operands, without a copy. Also returns the
/// offset of the first element of the input. Examples are kernels of length 1, and kernels as long as the input.
fn single_product(
    convolution: &Convolution,
    [input, kernel, result]: [&[usize]; 3],
) -> Option<(Loops, usize)> {
    let phases = convolution.phases(input, kernel, result);
    let numbers = &convolution.numbers;
    let strides = [input, kernel, result].map(row_major_strides);
    let (groups, of_features) = match convolution.feature_groups {
        1 => (convolution.batch_groups, false),
        groups => (groups, true),
    };
    let in_group = |length: usize, grouped: bool| if grouped { length / groups } else { length };
    let Axes {
        outer, features, ..
    } = numbers.input;
    let examples = in_group(input[outer], !of_features);
    let depth_of_group = kernel[numbers.kernel.features];
    let outputs = kernel[numbers.kernel.outer] / groups;
    if groups > 1 && depth_of_group.min(outputs) == 1 {
        return None;
    }
    let group = LoopAxis {
        length: groups,
        left: if of_features {
            strides[0][features] * depth_of_group
        } else {
            strides[0][outer] * examples
        },
        right: strides[1][numbers.kernel.outer] * outputs,
        result: strides[2][numbers.result.features] * outputs,
    };
    let columns = LoopAxis {
        length: outputs,
        left: 0,
        right: strides[1][numbers.kernel.outer],
        result: strides[2][numbers.result.features],
    };
    let mut rows = vec![LoopAxis {
        length: examples,
        left: strides[0][outer],
        right: 0,
        result: strides[2][numbers.result.outer],
    }];
    let mut depth = vec![LoopAxis {
        length: depth_of_group,
        left: strides[0][features],
        right: strides[1][numbers.kernel.features],
        result: 0,
    }];
    let mut offset = 0;
    for (axis, phases) in phases.iter().enumerate() {
        let [phase] = phases[..] else {
            return None;
        };
        if !phase.is_whole() {
            return None;
        }
        let (windows, elements) = (phase.windows.count, phase.elements.count);
        let first = usize::try_from(phase.base).ok()?;
        let last = first + (windows - 1) * phase.window_step + (elements - 1) * phase.element_step;
        if last >= phase.length || windows.min(elements) > 1 {
            return None;
        }
        let stride = strides[0][numbers.input.space[axis]];
        offset += first * stride;
        rows.push(LoopAxis {
            length: windows,
            left: stride * if windows > 1 { phase.window_step } else { 1 },
            right: 0,
            result: strides[2][numbers.result.space[axis]],
        });
        depth.push(LoopAxis {
            length: elements,
            left: stride * if elements > 1 { phase.element_step } else { 1 },
            right: strides[1][numbers.kernel.space[axis]],
            result: 0,
        });
    }
    rows.sort_by_key(|axis| std::cmp::Reverse(axis.left));
    depth.sort_by_key(|axis| std::cmp::Reverse(axis.left));
    if joined(depth.iter().copied()).len() > 1 {
        return None;
    }
    let batch = std::iter::once(group);
    let loops = Loops::new(
        batch,
        rows.into_iter(),
        std::iter::once(columns),
        depth.into_iter(),
    );
    // If each product has only a few rows, copying the windows is faster than many products.
    let (longest, products) = loops.extents();
    (products <= groups || longest >= 32).then_some((loops, offset))
}

/// The order of the axes of input, kernel and result that the kernels expect.
struct Order {
    rows: Rows,
    input: AxisList,
    kernel: AxisList,
    result: AxisList,
}

impl Order {
    fn new(rows: Rows, numbers: &DimensionNumbers) -> Self {
        let (i, k, r) = (&numbers.input, &numbers.kernel, &numbers.result);
        let around = |first: &[usize], space: &[usize], last: &[usize]| -> AxisList {
            [first, space, last].concat().into_iter().collect()
        };
        let (input, kernel, result) = match rows {
            Rows::Windows => (
                around(&[i.outer], &i.space, &[i.features]),
                around(&[], &k.space, &[k.features, k.outer]),
                around(&[r.outer], &r.space, &[r.features]),
            ),
            Rows::Elements => (
                around(&[i.features], &i.space, &[i.outer]),
                around(&[k.features], &k.space, &[k.outer]),
                around(&[], &r.space, &[r.outer, r.features]),
            ),
        };
        Self {
            rows,
            input,
            kernel,
            result,
        }
    }

    /// Computes a convolution. Copies the arrays that do not have this order.
    fn convolve<T: Factor>(
        &self,
        convolution: &Convolution,
        input: &Array,
        kernel: &Array,
        shape: &Shape,
    ) -> Array {
        let phases = convolution.phases(input.shape(), kernel.shape(), shape);
        let lengths = |order: &AxisList, shape: &[usize]| -> Shape {
            order.iter().map(|&axis| shape[axis]).collect()
        };
        let of_result = lengths(&self.result, shape);
        let parts = Parts {
            convolution,
            rows: self.rows,
            of_input: lengths(&self.input, input.shape()),
            of_kernel: lengths(&self.kernel, kernel.shape()),
            of_result: of_result.clone(),
        };
        let (input, kernel) = (arranged(input, &self.input), arranged(kernel, &self.kernel));
        let target = parts.convolve(&phases, input.elements::<T>(), &kernel);
        let result = Array::new(&of_result, target);
        arranged_back(result, &self.result, shape)
    }
}

/// Returns an array with its axes in the order `order`. Does not copy an array that already has this order in memory.
fn arranged<'a>(array: &'a Array, order: &[usize]) -> Cow<'a, Array> {
    let shape = array.shape();
    if order.iter().filter(|&&axis| shape[axis] > 1).is_sorted() {
        return Cow::Borrowed(array);
    }
    let strides = row_major_strides(shape);
    let lengths: Shape = order.iter().map(|&axis| shape[axis]).collect();
    let steps: PerAxis<isize> = order
        .iter()
        .map(|&axis| strides[axis].cast_signed())
        .collect();
    Cow::Owned(gather(array, &lengths, &steps, 0))
}

/// Reverses [`arranged`]: returns an array of shape `shape`, where `array` has the axes of `shape` in the order
/// `order`.
fn arranged_back(array: Array, order: &[usize], shape: &Shape) -> Array {
    if order.iter().filter(|&&axis| shape[axis] > 1).is_sorted() {
        return Array::reshaped(Arc::new(array), shape);
    }
    let mut steps: PerAxis<isize> = smallvec![0; shape.len()];
    for (&axis, stride) in order.iter().zip(row_major_strides(array.shape())) {
        steps[axis] = stride.cast_signed();
    }
    gather(&array, shape, &steps, 0)
}

/// A convolution in the order that the kernels expect, with the shapes of its arrays.
struct Parts<'a> {
    convolution: &'a Convolution,
    rows: Rows,
    of_input: Shape,
    of_kernel: Shape,
    of_result: Shape,
}

impl Parts<'_> {
    /// Returns the result. Computes one phase after the other.
    fn convolve<T: Factor>(&self, phases: &[Vec<Phase>], input: &[T], kernel: &Array) -> Vec<T> {
        let mut target = reused::<T>(self.of_result.iter().product());
        let whole = |phases: &Vec<Phase>| phases.len() == 1 && phases[0].is_whole();
        if phases.iter().all(whole) {
            let phase: Vec<Phase> = phases.iter().map(|phases| phases[0]).collect();
            let problem = self.problem(&phase, input, kernel.elements());
            problem.run(self.rows, &mut target);
            return target;
        }
        target.fill(T::default());
        let count = phases.iter().map(Vec::len).product();
        for mut index in 0..count {
            let one = |phases: &Vec<Phase>| {
                let phase = phases[index % phases.len()];
                index /= phases.len();
                phase
            };
            let phase: Vec<Phase> = phases.iter().map(one).collect();
            self.add_phase(&phase, input, kernel, &mut target);
        }
        target
    }

    /// Writes the windows of a phase to their positions in the result.
    fn add_phase<T: Factor>(&self, phase: &[Phase], input: &[T], kernel: &Array, target: &mut [T]) {
        let elements: Vec<Progression> = phase.iter().map(|phase| phase.elements).collect();
        let windows: Vec<Progression> = phase.iter().map(|phase| phase.windows).collect();
        let (before, behind) = match self.rows {
            Rows::Windows => (0, 1),
            Rows::Elements => (1, 0),
        };
        let (lengths, steps, offset) = selected(&self.of_kernel, before, &elements);
        let strided = Array::reshaped(Arc::new(kernel.clone()), &self.of_kernel);
        let kernel = gather(&strided, &lengths, &steps, offset);
        let (lengths, steps, offset) = selected(&self.of_result, behind, &windows);
        let mut part = reused::<T>(lengths.iter().product());
        self.problem(phase, input, kernel.elements())
            .run(self.rows, &mut part);
        add_by_strides(&part, &mut target[offset..], &lengths, &steps, |_, new| new);
        give_back(part);
    }

    /// Returns the convolution of one phase. The kernel has only the elements of the phase.
    fn problem<'a, T: Factor>(
        &self,
        phase: &[Phase],
        input: &'a [T],
        kernel: &'a [T],
    ) -> Problem<'a, T> {
        let strides = row_major_strides(&self.of_input);
        let Convolution {
            feature_groups,
            batch_groups,
            ..
        } = *self.convolution;
        let (outer_groups, inner_groups) = match self.rows {
            Rows::Windows => (batch_groups, feature_groups),
            Rows::Elements => (feature_groups, batch_groups),
        };
        let last = self.of_input.len() - 1;
        let outer = self.of_input[0] / outer_groups;
        let inner = self.of_input[last] / inner_groups;
        let axis = |(axis, phase): (usize, &Phase)| {
            let (rows, elements) = match self.rows {
                Rows::Windows => (
                    (phase.windows.count, phase.window_step),
                    (phase.elements.count, phase.element_step),
                ),
                Rows::Elements => (
                    (phase.elements.count, phase.element_step),
                    (phase.windows.count, phase.window_step),
                ),
            };
            WindowAxis {
                length: phase.length,
                stride: strides[axis + 1],
                base: phase.base,
                rows: rows.0,
                row_step: rows.1,
                elements: elements.0,
                element_step: elements.1,
            }
        };
        let mut axes: WindowAxes = phase.iter().enumerate().map(axis).collect();
        if axes.is_empty() {
            // Without spatial axes there is one window with one element.
            axes.push(WindowAxis::single(self.of_input[last]));
        }
        Problem {
            input,
            kernel,
            axes,
            groups: outer_groups * inner_groups,
            group_stride: if inner_groups > 1 {
                inner
            } else {
                outer * strides[0]
            },
            outer,
            outer_stride: strides[0],
            inner,
            inner_total: self.of_input[last],
            features: self.of_result[self.of_result.len() - 1],
        }
    }
}

/// Restricts the spatial axes of an array to progressions. Returns the lengths and the strides of the remaining
/// elements, and the offset of the first of them. The spatial axes begin at the axis `first`.
fn selected(
    shape: &Shape,
    first: usize,
    progressions: &[Progression],
) -> (Shape, PerAxis<isize>, usize) {
    let strides = row_major_strides(shape);
    let mut lengths = shape.clone();
    let mut steps: PerAxis<isize> = strides.iter().map(|stride| stride.cast_signed()).collect();
    let mut offset = 0;
    for (axis, progression) in (first..).zip(progressions) {
        lengths[axis] = progression.count;
        offset += progression.first * strides[axis];
        if progression.count > 1 {
            steps[axis] = (progression.step * strides[axis]).cast_signed();
        }
    }
    (lengths, steps, offset)
}
