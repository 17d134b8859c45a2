//! The evaluation of a convolution: selects a kernel, and arranges the arrays in the memory order that the kernel
//! expects.
//!
//! No array of windows is stored. Blocks of windows are copied to a buffer that fits the cache, and multiplied by the kernel.
//! Depthwise convolutions need no matrix product, and kernels of length 1 no copy. A dilated input is divided into phases, so that no
//! zero between its elements is multiplied. The blocks depend on shapes alone.

use std::sync::Arc;

use bytemuck::Pod;
use pytree_base::bug::expect_some;
use smallvec::smallvec;

use super::packed;
use super::phases::{Parts, Selected};
use super::problem::Rows;
use super::single_product::single_product;
use crate::base::array::{Array, row_major_strides};
use crate::base::combine::{Number, with_number};
use crate::base::dtype::{AbstractArray, DType};
use crate::base::shape::{AxisList, PerAxis, Shape};
use crate::base::target::{Following, Target, Then};
use crate::base::threads;
use crate::loops::convolution::geometry::{Convolution, DimensionNumbers};
use crate::loops::dot::matrix_product::{Factor, Loops, PER_NANOSECOND, multiply_then};
use crate::loops::sliding::Phase;
use crate::loops::strided::gather;

/// Computes a convolution of two arrays of a wide dtype. The shapes must fit each other.
pub fn evaluate(convolution: &Convolution, input: &Array, kernel: &Array) -> Array {
    let shape = convolution.result_shape(input.shape(), kernel.shape());
    let shape = expect_some(shape, "padding that the shape rule accepts");
    let Some(plan) = Plan::new(convolution, input.shape(), kernel.shape()) else {
        return Array::zeros(&AbstractArray::new(input.dtype(), &shape));
    };
    let computed = match &plan {
        Plan::Product { .. } => &shape,
        Plan::Phases { parts, .. } => &parts.of_result,
    };
    let mut target = Array::reused(&AbstractArray::new(input.dtype(), computed));
    with_number!(input.dtype(), T => {
        plan.run::<T>(input, kernel, Target::new(T::of_mut(&mut target)), None);
    });
    match plan {
        Plan::Product { .. } => target,
        Plan::Phases { order, .. } => arranged_back(target, &order.result, &shape),
    }
}

/// How a convolution is computed.
pub(crate) enum Plan<'c> {
    /// As one matrix product, whose operands begin at the given offsets.
    Product { loops: Loops, offsets: [usize; 2] },
    /// One phase after the other.
    Phases {
        phases: Vec<Vec<Phase>>,
        parts: Parts<'c>,
        order: Order,
    },
}

impl<'c> Plan<'c> {
    /// Returns the plan for operands with the given shapes, or `None` if no result has a term.
    pub(crate) fn new(
        convolution: &'c Convolution,
        input: &[usize],
        kernel: &[usize],
    ) -> Option<Self> {
        let shape = convolution.result_shape(input, kernel)?;
        if [input, kernel, &shape]
            .iter()
            .any(|shape| shape.contains(&0))
        {
            return None;
        }
        if let Some((loops, offsets)) = single_product(convolution, [input, kernel, &shape]) {
            return Some(Self::Product { loops, offsets });
        }
        let strides = row_major_strides(input);
        let axes = &convolution.numbers.input;
        let rows = if strides[axes.features] <= strides[axes.outer] {
            Rows::Windows
        } else {
            Rows::Elements
        };
        let order = Order::new(rows, &convolution.numbers);
        let parts = Parts {
            convolution,
            rows,
            input: Selected::all(input).permuted(&order.input),
            kernel: Selected::all(kernel).permuted(&order.kernel),
            of_result: order.result.iter().map(|&axis| shape[axis]).collect(),
        };
        Some(Self::Phases {
            phases: convolution.phases(input, kernel, &shape),
            parts,
            order,
        })
    }

    /// Writes the result to `target`, and continues with its regions. The axes of the result are in the order of the plan.
    pub(crate) fn run<T: Number + Factor + Pod>(
        &self,
        input: &Array,
        kernel: &Array,
        target: Target<'_, T>,
        then: Option<Then<'_>>,
    ) {
        match self {
            Self::Product { loops, offsets } => {
                let (input, kernel) = (&T::of(input)[offsets[0]..], &T::of(kernel)[offsets[1]..]);
                multiply_then(loops, input, kernel, target, threads::count(), then);
            }
            Self::Phases { phases, parts, .. } => {
                parts.convolve(phases, input, kernel, target, then);
            }
        }
    }

    /// Returns the number of elements of a row of the result, if its elements are computed in the order of memory, so that
    /// another computation can continue with its regions.
    pub(crate) fn width(&self) -> Option<usize> {
        match self {
            Self::Product { loops, .. } => loops.is_in_order().then(|| loops.width()),
            Self::Phases { parts, order, .. } => {
                let is_in_order = parts.rows == Rows::Windows && order.result.is_sorted();
                is_in_order.then(|| parts.of_result[parts.of_result.len() - 1])
            }
        }
    }

    /// Returns whether another computation can continue with the regions of the result.
    pub(crate) fn can_continue(&self, dtype: DType, following: &Following) -> bool {
        let Self::Phases { phases, parts, .. } = self else {
            return true;
        };
        parts.whole(phases).is_none_or(|phase| {
            let problem = parts.problem(&phase);
            let rows = packed::rows_of_part(&problem, dtype.bytes());
            let elements = rows * problem.features;
            problem.is_depthwise()
                || rows == problem.rows()
                || elements.is_multiple_of(following.grain)
        })
    }
}

/// Returns about how many nanoseconds one thread takes for a convolution whose kernel and result have a number of elements.
pub(crate) fn nanoseconds(
    convolution: &Convolution,
    kernel: &AbstractArray,
    results: usize,
) -> usize {
    let outputs = kernel.shape[convolution.numbers.kernel.outer].max(1);
    results * (kernel.len() / outputs) / PER_NANOSECOND
}

/// The order of the axes of input, kernel and result that the kernels expect.
pub(crate) struct Order {
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
            input,
            kernel,
            result,
        }
    }
}

/// Returns an array of shape `shape`. The axes of `array` are the axes of `shape` in the order `order`. This function
/// reverses [`Selected::permuted`].
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
