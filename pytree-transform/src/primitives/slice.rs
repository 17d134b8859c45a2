//! Slices and reversals. The submodules hold padding, concatenation, windows and updates.

mod concatenate;
mod pad;
mod part;
mod window;

use std::sync::Arc;

use pytree_base::lists::Tuple;
use pytree_kernels::base::array::row_major_strides;
use pytree_kernels::base::shape::{AxisList, PerAxis};
use pytree_kernels::loops::strided::gather;

use crate::primitives::prelude::*;
use crate::primitives::shape::batched_axis;
use crate::tensor::linear_primitive::LinearPrimitive;
use crate::tensor::primitive::LoweredOne;

pub(crate) use self::concatenate::{Concatenate, concatenate};
pub(crate) use self::pad::pad;
pub(in crate::primitives) use self::part::inserted;
pub(crate) use self::part::{Slice, slice};

pub(crate) use self::window::{DynamicSlice, UpdateSlice, update_slice, window};

/// Reverses the elements along some axes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Reverse {
    pub(crate) axes: AxisList,
}

/// Reverses the elements along `axes`, or returns the tensor itself if there are no axes.
#[track_caller]
pub(crate) fn reverse(operand: &Tensor, axes: &[usize]) -> Result<Tensor, TensorError> {
    if axes.is_empty() {
        return Ok(operand.clone());
    }
    bind_one(
        &Reverse {
            axes: AxisList::from_slice(axes),
        },
        &[operand],
    )
}

impl LinearPrimitive for Slice {
    fn name(&self) -> &'static str {
        "slice"
    }

    fn result(&self, operand: &AbstractArray) -> Result<AbstractArray, TensorError> {
        let Self {
            start,
            limit,
            stride,
        } = self;
        let fits = [start.len(), limit.len(), stride.len()] == [operand.rank(); 3]
            && (0..operand.rank()).all(|axis| {
                start[axis] <= limit[axis] && limit[axis] <= operand.shape[axis] && stride[axis] > 0
            });
        if !fits {
            let problem = format!(
                "the range from {start:?} to {limit:?} with the steps {stride:?} is not valid"
            );
            return Err(TensorError::shape(
                "slice",
                &[operand],
                problem,
                "for each axis, use 0 ≤ start ≤ limit ≤ length and a step above 0",
            ));
        }
        Ok(AbstractArray {
            dtype: operand.dtype,
            shape: self.result_shape(),
        })
    }

    fn evaluate(&self, operand: Arc<Array>) -> Array {
        let strides = row_major_strides(operand.shape());
        let offset = self
            .start
            .iter()
            .zip(&strides)
            .map(|(start, stride)| start * stride)
            .sum();
        let steps: PerAxis<isize> = self
            .stride
            .iter()
            .zip(&strides)
            .map(|(step, stride)| (step * stride).cast_signed())
            .collect();
        gather(&operand, &self.result_shape(), &steps, offset)
    }

    /// Pads the cotangent with zeros at the elements that the slice does not select.
    fn transpose(&self, cotangent: &Tensor, operand: &AbstractArray) -> Tensor {
        let low: PerAxis<isize> = self.start.iter().map(|start| start.cast_signed()).collect();
        let interior: PerAxis = self.stride.iter().map(|stride| stride - 1).collect();
        let spread = self.result_shape();
        let high: PerAxis<isize> = (0..operand.rank())
            .map(|axis| {
                let taken = self.start[axis]
                    + (spread[axis] + spread[axis].saturating_sub(1) * interior[axis]);
                operand.shape[axis].cast_signed() - taken.cast_signed()
            })
            .collect();
        let zero = Tensor::constant(operand.dtype, 0.0);
        or_panic(pad(cotangent, &zero, &low, &high, &interior))
    }

    fn batch(&self, operand: &Tensor, axis: usize) -> (Tensor, usize) {
        let (start, limit, stride) = (
            inserted(&self.start, axis, 0),
            inserted(&self.limit, axis, operand.shape()[axis]),
            inserted(&self.stride, axis, 1),
        );
        (or_panic(slice(operand, &start, &limit, &stride)), axis)
    }

    fn lower(&self, block: &mut Block<'_>, operand: &Value, _: &AbstractArray) -> LoweredOne {
        Ok(block.sliced(operand, &self.start, &self.limit, &self.stride))
    }

    fn accepts_narrow(&self) -> bool {
        true
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            start,
            limit,
            stride,
        } = self;
        write!(
            f,
            "limit_indices={} start_indices={}",
            Tuple(limit),
            Tuple(start)
        )?;
        if stride.iter().all(|&stride| stride == 1) {
            Ok(())
        } else {
            write!(f, " strides={}", Tuple(stride))
        }
    }
}

impl LinearPrimitive for Reverse {
    fn name(&self) -> &'static str {
        "rev"
    }

    fn result(&self, operand: &AbstractArray) -> Result<AbstractArray, TensorError> {
        match self.axes.iter().find(|&&axis| axis >= operand.rank()) {
            Some(&axis) => Err(TensorError::axis("reverse", operand, axis)),
            None => Ok(operand.clone()),
        }
    }

    fn evaluate(&self, operand: Arc<Array>) -> Array {
        if operand.info.is_empty() {
            return Array::clone(&operand);
        }
        let mut offset = 0;
        let mut steps: PerAxis<isize> = row_major_strides(operand.shape())
            .iter()
            .map(|stride| stride.cast_signed())
            .collect();
        for &axis in &self.axes {
            offset += (operand.shape()[axis] - 1) * steps[axis].cast_unsigned();
            steps[axis] = -steps[axis];
        }
        gather(&operand, operand.shape(), &steps, offset)
    }

    fn transpose(&self, cotangent: &Tensor, _: &AbstractArray) -> Tensor {
        or_panic(reverse(cotangent, &self.axes))
    }

    fn batch(&self, operand: &Tensor, axis: usize) -> (Tensor, usize) {
        let axes: AxisList = self
            .axes
            .iter()
            .map(|&reversed| batched_axis(reversed, axis))
            .collect();
        (or_panic(reverse(operand, &axes)), axis)
    }

    fn lower(&self, block: &mut Block<'_>, operand: &Value, _: &AbstractArray) -> LoweredOne {
        Ok(block.reversed(operand, &self.axes))
    }

    fn accepts_narrow(&self) -> bool {
        true
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dimensions={}", Tuple(&self.axes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::shape::tests::rule_checks::{
        check_batching, check_tangent, check_transpose, noise,
    };
    use crate::tensor::primitive::Primitive;

    fn slice_of(start: [usize; 2], limit: [usize; 2], stride: [usize; 2]) -> Slice {
        Slice {
            start: PerAxis::from_slice(&start),
            limit: PerAxis::from_slice(&limit),
            stride: PerAxis::from_slice(&stride),
        }
    }

    #[test]
    fn slice_out_of_range_is_an_error() {
        let x = noise(&[4, 5], 1);
        assert!(slice(&x, &[0, 0], &[4, 6], &[1, 1]).is_err());
        assert!(slice(&x, &[3, 0], &[2, 5], &[1, 1]).is_err());
        assert!(slice(&x, &[0, 0], &[4, 5], &[0, 1]).is_err());
        assert_eq!(
            slice(&x, &[4, 0], &[4, 5], &[1, 1]).unwrap().shape(),
            [0, 5]
        );
        assert!(slice(&x, &[0, 0], &[4, 5], &[1, 1]).unwrap().same(&x));
    }

    #[test]
    fn reverse_flips_elements() {
        let x = Tensor::from([[1, 2, 3], [4, 5, 6]]);
        assert_eq!(
            reverse(&x, &[1]).unwrap(),
            Tensor::from([[3, 2, 1], [6, 5, 4]])
        );
        assert_eq!(
            reverse(&x, &[0, 1]).unwrap(),
            Tensor::from([[6, 5, 4], [3, 2, 1]])
        );
    }

    #[test]
    fn slice_and_reverse_rules_agree_with_evaluation() {
        let slices = [
            slice_of([1, 0], [3, 5], [1, 2]),
            slice_of([0, 2], [4, 2], [3, 3]),
            slice_of([2, 1], [4, 4], [1, 1]),
        ];
        let reverse = Reverse {
            axes: AxisList::from_slice(&[1]),
        };
        let primitives = slices
            .iter()
            .map(|slice| slice as &dyn Primitive)
            .chain([&reverse as &dyn Primitive]);
        for primitive in primitives {
            check_transpose(primitive, &[noise(&[4, 5], 1)], 0);
            check_tangent(primitive, &[noise(&[4, 5], 1)]);
            for (axis, shape) in [(0, [3, 4, 5]), (1, [4, 3, 5]), (2, [4, 5, 3])] {
                check_batching(primitive, &[noise(&shape, 1)], &[Some(axis)]);
            }
        }
    }
}
