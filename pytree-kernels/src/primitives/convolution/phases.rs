//! The phases of a convolution, which are computed one after the other. An input with a dilation is divided into phases
//! without gaps, so zeros between elements are never multiplied.

use std::sync::Arc;

use super::Convolution;
use super::problem::{Problem, Rows, WindowAxes, WindowAxis};
use crate::base::array::{Array, row_major_strides};
use crate::base::bits::with_bits;
use crate::base::dtype::AbstractArray;
use crate::base::shape::{PerAxis, Shape};
use crate::primitives::sliding::{Phase, Progression};
use crate::primitives::strided::{add_by_strides, gather};

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

/// A convolution in the order that the kernels expect, with the shapes of its arrays.
pub(super) struct Parts<'a> {
    pub(super) convolution: &'a Convolution,
    pub(super) rows: Rows,
    pub(super) of_input: Shape,
    pub(super) of_kernel: Shape,
    pub(super) of_result: Shape,
}

impl Parts<'_> {
    /// Returns the result. Computes one phase after the other.
    pub(super) fn convolve(&self, phases: &[Vec<Phase>], input: &Array, kernel: &Array) -> Array {
        let result = AbstractArray::new(input.dtype(), &self.of_result);
        let whole = |phases: &Vec<Phase>| phases.len() == 1 && phases[0].is_whole();
        if phases.iter().all(whole) {
            let phase: Vec<Phase> = phases.iter().map(|phases| phases[0]).collect();
            let mut target = Array::reused(&result);
            self.problem(&phase)
                .run(self.rows, input, kernel, &mut target);
            return target;
        }
        let mut target = Array::reused(&result);
        with_bits!(result.dtype, T => target.bits_mut::<T>().fill(T::default()));
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
    fn add_phase(&self, phase: &[Phase], input: &Array, kernel: &Array, target: &mut Array) {
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
        let mut part = Array::reused(&AbstractArray::new(target.dtype(), &lengths));
        self.problem(phase)
            .run(self.rows, input, &kernel, &mut part);
        with_bits!(target.dtype(), T => {
            let (source, target) = (part.bits::<T>(), &mut target.bits_mut::<T>()[offset..]);
            add_by_strides(source, target, &lengths, &steps, |_, new| new);
        });
    }

    /// Returns the convolution of one phase. The kernel has only the elements of the phase.
    fn problem(&self, phase: &[Phase]) -> Problem {
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

/// Selects the elements of an array at the positions `progressions` of the spatial axes, which begin at the axis
/// `first`. Returns the lengths and strides of the selected array, and the offset of the first selected element.
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
