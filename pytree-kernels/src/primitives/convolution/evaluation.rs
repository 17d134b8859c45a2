//! The evaluation of a convolution: selects a kernel, and arranges the arrays in the memory order that the kernel
//! expects.
//!
//! No array of windows is stored. Blocks of windows are copied to a buffer that fits the cache, and multiplied by the kernel.
//! Depthwise convolutions need no matrix product, and kernels of length 1 no copy. A dilated input is divided into phases, so that no
//! zero between its elements is multiplied. The blocks depend on shapes alone.

use std::borrow::Cow;
use std::sync::Arc;

use pytree_base::bug::expect_some;
use smallvec::smallvec;

use super::phases::Parts;
use super::problem::Rows;
use super::single_product::single_product;
use super::{Convolution, DimensionNumbers};
use crate::base::array::{Array, row_major_strides};
use crate::base::dtype::{AbstractArray, DType};
use crate::base::shape::{AxisList, PerAxis, Shape};
use crate::base::threads;
use crate::primitives::dot::matrix_product::multiply;
use crate::primitives::reduction::{Number, with_number};
use crate::primitives::strided::gather;

/// Computes a convolution of two arrays of a wide dtype. The shapes must fit each other.
pub fn evaluate(convolution: &Convolution, input: &Array, kernel: &Array) -> Array {
    let shape = convolution.result_shape(input.shape(), kernel.shape());
    let shape = expect_some(shape, "padding that the shape rule accepts");
    let no_terms = input.info.is_empty() || kernel.info.is_empty();
    let result = AbstractArray::new(input.dtype(), &shape);
    if no_terms || shape.contains(&0) {
        return Array::zeros(&result);
    }
    let product = single_product(convolution, [input.shape(), kernel.shape(), &shape]);
    if let Some((loops, offset)) = product {
        let mut target = Array::reused(&result);
        with_number!(input.dtype(), T => {
            let (input, kernel) = (&T::of(input)[offset..], T::of(kernel));
            multiply(&loops, input, kernel, T::of_mut(&mut target), threads::count());
        });
        return target;
    }
    let strides = row_major_strides(input.shape());
    let axes = &convolution.numbers.input;
    let rows = if strides[axes.features] <= strides[axes.outer] {
        Rows::Windows
    } else {
        Rows::Elements
    };
    Order::new(rows, &convolution.numbers).convolve(convolution, input, kernel, &shape)
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

    /// Computes a convolution. An array whose axes have another order in memory is copied first.
    fn convolve(
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
        let parts = Parts {
            convolution,
            rows: self.rows,
            of_input: lengths(&self.input, input.shape()),
            of_kernel: lengths(&self.kernel, kernel.shape()),
            of_result: lengths(&self.result, shape),
        };
        let (input, kernel) = (arranged(input, &self.input), arranged(kernel, &self.kernel));
        let result = parts.convolve(&phases, &input, &kernel);
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

/// Returns an array of shape `shape`. The axes of `array` are the axes of `shape` in the order `order`. This function
/// reverses [`arranged`].
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
