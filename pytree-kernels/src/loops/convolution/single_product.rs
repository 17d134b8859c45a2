//! Convolutions that are one matrix product of their operands, without a rearrangement in memory.

use crate::base::array::row_major_strides;
use crate::loops::convolution::geometry::{Axes, Convolution};
use crate::loops::dot::matrix_product::{LoopAxis, Loops, joined};

/// Returns the loops of a convolution that is one matrix product of its operands, without a copy. Also returns the
/// offsets of the first elements of the input and the kernel. Examples are convolutions with a kernel of length 1 or with a kernel as
/// long as the input.
pub(super) fn single_product(
    convolution: &Convolution,
    [input, kernel, result]: [&[usize]; 3],
) -> Option<(Loops, [usize; 2])> {
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
    let of_group = if of_features {
        strides[0][features] * depth_of_group
    } else {
        strides[0][outer] * examples
    };
    let by_output = [
        strides[1][numbers.kernel.outer],
        strides[2][numbers.result.features],
    ];
    let [of_outputs, to_outputs] = by_output.map(|stride| stride * outputs);
    let group = LoopAxis::new(groups, [of_group, of_outputs, to_outputs]);
    let columns = LoopAxis::new(outputs, [0, by_output[0], by_output[1]]);
    let by_example = [strides[0][outer], 0, strides[2][numbers.result.outer]];
    let mut rows = vec![LoopAxis::new(examples, by_example)];
    let by_feature = [strides[0][features], strides[1][numbers.kernel.features], 0];
    let mut depth = vec![LoopAxis::new(depth_of_group, by_feature)];
    let mut offsets = [0; 2];
    for (axis, phases) in phases.iter().enumerate() {
        let [phase] = phases[..] else {
            return None;
        };
        let of_result = numbers.result.space[axis];
        if phase.windows.count < result[of_result] {
            return None;
        }
        let (windows, elements) = (phase.windows.count, phase.elements.count);
        let first = usize::try_from(phase.base).ok()?;
        let last = first + (windows - 1) * phase.window_step + (elements - 1) * phase.element_step;
        if last >= phase.length || windows.min(elements) > 1 {
            return None;
        }
        let stride = strides[0][numbers.input.space[axis]];
        let of_kernel = strides[1][numbers.kernel.space[axis]];
        offsets[0] += first * stride;
        offsets[1] += phase.elements.first * of_kernel;
        let window_step = if windows > 1 { phase.window_step } else { 1 };
        let by_window = [stride * window_step, 0, strides[2][of_result]];
        rows.push(LoopAxis::new(windows, by_window));
        let element_step = if elements > 1 { phase.element_step } else { 1 };
        let by_element = [stride * element_step, of_kernel * phase.elements.step, 0];
        depth.push(LoopAxis::new(elements, by_element));
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
    (products <= groups || longest >= 32).then_some((loops, offsets))
}
