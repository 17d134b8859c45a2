//! The phases of a convolution, which are computed one after the other. An input with a dilation is divided into phases
//! without gaps, so zeros between elements are never multiplied.

use std::borrow::Cow;

use bytemuck::Pod;

use super::problem::{Operands, Problem, Rows, WindowAxes, WindowAxis};
use super::{depthwise, packed};
use crate::base::array::{Array, give_back, reused, row_major_strides};
use crate::base::combine::Number;
use crate::base::shape::{PerAxis, Shape};
use crate::base::target::{Region, Target, Then};
use crate::loops::convolution::geometry::Convolution;
use crate::loops::dot::matrix_product::Factor;
use crate::loops::sliding::{Phase, Progression};
use crate::loops::strided::{add_by_strides, gather};

impl Convolution {
    /// Returns the phases of each spatial axis.
    pub(super) fn phases(
        &self,
        input: &[usize],
        kernel: &[usize],
        result: &[usize],
    ) -> Vec<Vec<Phase>> {
        let counts = self.numbers.result.space.iter().map(|&axis| result[axis]);
        let slidings = self.slidings(input, kernel);
        slidings
            .iter()
            .zip(counts)
            .map(|(sliding, count)| sliding.phases(count))
            .collect()
    }
}

/// A convolution in the order that the kernels expect, with the elements of its operands and the shape of its result.
pub(crate) struct Parts<'a> {
    pub(super) convolution: &'a Convolution,
    pub(super) rows: Rows,
    pub(super) input: Selected,
    pub(super) kernel: Selected,
    pub(super) of_result: Shape,
}

impl Parts<'_> {
    /// Writes the result to `target`, and continues with its regions.
    ///
    /// Padding contributes nothing to a sum, but the blocks of windows have zeros in its place, whose products with NaN and
    /// infinities of the kernel are NaN. So a kernel with such elements takes phases without padding. The shorter of the kernel and
    /// the result shows whether there are any.
    pub(super) fn convolve<T: Number + Factor + Pod>(
        &self,
        phases: &[Vec<Phase>],
        input: &Array,
        kernel: &Array,
        mut target: Target<'_, T>,
        then: Option<Then<'_>>,
    ) {
        let input = self.input.of(input);
        let is_padded = input.dtype().is_float() && self.multiplies_padding(phases);
        if !is_padded || (kernel.info.len() <= target.elements() && are_finite(T::of(kernel))) {
            return self.convolve_phases(phases, &input, kernel, target, then);
        }
        let elements = target.elements();
        if kernel.info.len() > elements {
            self.convolve_phases(phases, &input, kernel, target.from(0), None);
        }
        if kernel.info.len() <= elements
            || !are_finite(target.slice(0, elements)) && !are_finite(T::of(kernel))
        {
            let apart = |phases: &Vec<Phase>| phases.iter().flat_map(Phase::apart).collect();
            let apart: Vec<Vec<Phase>> = phases.iter().map(apart).collect();
            self.convolve_phases(&apart, &input, kernel, target.from(0), None);
        }
        if let Some(then) = then {
            (then.run)(Region::between(0, elements));
        }
    }

    /// Returns whether a matrix product multiplies padding by the kernel.
    fn multiplies_padding(&self, phases: &[Vec<Phase>]) -> bool {
        let mut all = phases.iter().flatten();
        let first: Option<Vec<Phase>> = phases.iter().map(|of| of.first().copied()).collect();
        let is_product = |first: Vec<Phase>| !self.problem(&first).is_depthwise();
        all.any(|phase| !phase.is_inside()) && first.is_some_and(is_product)
    }

    /// Computes one phase after the other.
    fn convolve_phases<T: Number + Factor + Pod>(
        &self,
        phases: &[Vec<Phase>],
        input: &Array,
        kernel: &Array,
        mut target: Target<'_, T>,
        then: Option<Then<'_>>,
    ) {
        if let Some(phase) = self.whole(phases) {
            return self.convolve_phase(&phase, input, kernel, target, then);
        }
        let elements = target.elements();
        target.slice_mut(0, elements).fill(T::default());
        let count = phases.iter().map(Vec::len).product();
        for mut index in 0..count {
            let one = |phases: &Vec<Phase>| {
                let phase = phases[index % phases.len()];
                index /= phases.len();
                phase
            };
            let phase: Vec<Phase> = phases.iter().map(one).collect();
            let windows = phase.iter().map(|phase| phase.windows);
            let (_, behind) = self.first_axes();
            let windows = Selected::all(&self.of_result).selected(behind, windows);
            let mut part = reused::<T>(windows.lengths.iter().product());
            self.convolve_phase(&phase, input, kernel, Target::new(&mut part), None);
            let target = target.slice_mut(windows.offset, elements - windows.offset);
            add_by_strides(&part, target, &windows.lengths, &windows.steps, |_, new| {
                new
            });
            give_back(part);
        }
        if let Some(then) = then {
            (then.run)(Region::between(0, elements));
        }
    }

    /// Returns the phase of each spatial axis if the phases are one phase with all windows.
    pub(super) fn whole(&self, phases: &[Vec<Phase>]) -> Option<Vec<Phase>> {
        let (_, behind) = self.first_axes();
        let counts = &self.of_result[behind..];
        let whole = |(phases, &count): (&Vec<Phase>, &usize)| match phases[..] {
            [phase] if phase.windows.count == count => Some(phase),
            _ => None,
        };
        phases.iter().zip(counts).map(whole).collect()
    }

    /// Returns the first spatial axis of the kernel and that of the result.
    fn first_axes(&self) -> (usize, usize) {
        match self.rows {
            Rows::Windows => (0, 1),
            Rows::Elements => (1, 0),
        }
    }

    /// Writes the windows of a phase to `target`, and continues with regions of them.
    fn convolve_phase<T: Number + Factor + Pod>(
        &self,
        phase: &[Phase],
        input: &Array,
        kernel: &Array,
        target: Target<'_, T>,
        then: Option<Then<'_>>,
    ) {
        let elements = phase.iter().map(|phase| phase.elements);
        let kernel = self
            .kernel
            .selected(self.first_axes().0, elements)
            .of(kernel);
        let operands = Operands {
            input: T::of(input),
            kernel: T::of(&kernel),
        };
        self.problem(phase).run(self.rows, operands, target, then);
    }

    /// Returns the convolution of one phase. The kernel has only the elements of the phase.
    pub(super) fn problem(&self, phase: &[Phase]) -> Problem {
        let of_input = &self.input.lengths;
        let strides = row_major_strides(of_input);
        let Convolution {
            feature_groups,
            batch_groups,
            ..
        } = *self.convolution;
        let (outer_groups, inner_groups) = match self.rows {
            Rows::Windows => (batch_groups, feature_groups),
            Rows::Elements => (feature_groups, batch_groups),
        };
        let last = of_input.len() - 1;
        let outer = of_input[0] / outer_groups;
        let inner = of_input[last] / inner_groups;
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
            axes.push(WindowAxis::single(of_input[last]));
        }
        Problem {
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
            inner_total: of_input[last],
            features: self.of_result[self.of_result.len() - 1],
        }
    }
}

/// Returns whether no element is NaN or infinite. Such an element times 0 is NaN.
fn are_finite<T: Number>(elements: &[T]) -> bool {
    let zero = T::default();
    // Without an early exit, so that the compiler vectorises the inner loop.
    let is_finite = |all, element: &T| all & (element.times(zero) == zero);
    elements
        .chunks(1024)
        .all(|it| it.iter().fold(true, is_finite))
}

/// Elements of an array: the length of each axis, the distance of neighbours, and the position of the first element.
#[derive(Clone)]
pub(crate) struct Selected {
    pub(super) lengths: Shape,
    steps: PerAxis<isize>,
    offset: usize,
}

impl Selected {
    /// Selects all elements of an array with the given shape.
    pub(super) fn all(shape: &[usize]) -> Self {
        let strides = row_major_strides(shape);
        Self {
            lengths: Shape::from(shape),
            steps: strides.iter().map(|stride| stride.cast_signed()).collect(),
            offset: 0,
        }
    }

    /// Puts the axes in an order.
    pub(super) fn permuted(&self, order: &[usize]) -> Self {
        Self {
            lengths: order.iter().map(|&axis| self.lengths[axis]).collect(),
            steps: order.iter().map(|&axis| self.steps[axis]).collect(),
            offset: self.offset,
        }
    }

    /// Selects the elements at the positions `progressions` of the spatial axes, which begin at the axis `first`.
    fn selected(&self, first: usize, progressions: impl Iterator<Item = Progression>) -> Self {
        let mut selected = self.clone();
        for (axis, progression) in (first..).zip(progressions) {
            selected.lengths[axis] = progression.count;
            selected.offset += progression.first * self.steps[axis].cast_unsigned();
            selected.steps[axis] *= progression.step.cast_signed();
        }
        selected
    }

    /// Returns the elements of an array. Does not copy an array that already has them in this order in memory.
    pub(super) fn of<'a>(&self, array: &'a Array) -> Cow<'a, Array> {
        let rows = row_major_strides(&self.lengths);
        let axes = self.lengths.iter().zip(&self.steps).zip(&rows);
        let is_same = |((&length, &step), &row): ((&usize, &isize), &usize)| {
            length == 1 || step == row.cast_signed()
        };
        if self.lengths.iter().product::<usize>() == array.info.len() && { axes }.all(is_same) {
            return Cow::Borrowed(array);
        }
        Cow::Owned(gather(array, &self.lengths, &self.steps, self.offset))
    }
}

impl Problem {
    /// Writes the result to `target`, and continues with its regions.
    pub(super) fn run<T: Number + Factor + Pod>(
        &self,
        rows: Rows,
        operands: Operands<'_, T>,
        mut target: Target<'_, T>,
        then: Option<Then<'_>>,
    ) {
        let is_depthwise = self.is_depthwise();
        if rows == Rows::Windows && !is_depthwise {
            return packed::windows_by_kernel(self, operands, target, then);
        }
        let elements = target.elements();
        let all = target.slice_mut(0, elements);
        match rows {
            Rows::Windows => depthwise::convolve(self, operands, all),
            Rows::Elements if is_depthwise => depthwise::kernel_gradient(self, operands, all),
            Rows::Elements => packed::elements_by_kernel(self, operands, all),
        }
        if let Some(then) = then {
            (then.run)(Region::between(0, elements));
        }
    }
}
