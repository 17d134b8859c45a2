//! Sums over axes.

use std::fmt;
use std::sync::Arc;

use pytree_kernels::base::array::Array;
use pytree_kernels::base::dtype::{AbstractArray, DType};
use pytree_kernels::base::fold::Fold;
use pytree_kernels::base::shape::{AxisList, without_axes};
use pytree_kernels::loops::reduction;

use crate::base::error::{TensorError, or_panic};
use crate::primitives::convert::convert;
use crate::primitives::reduce::axes::{
    axes_exist, batched_axes, broadcast_back, lower_operand, reduced, sorted, write,
};
use crate::tensor::Tensor;
use crate::tensor::primitive::{LinearPrimitive, LoweredOne};
use crate::tensor::stablehlo::{Block, Value, number};
use crate::tensor::trace::bind_one;

/// Sums a tensor over some axes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sum {
    pub(crate) axes: AxisList,
    /// The dtype to which the operand is converted part by part, if it is not its own.
    pub(crate) dtype: Option<DType>,
}

/// Returns the sum over distinct `axes`. Returns the tensor itself if there are no axes.
#[track_caller]
pub(crate) fn sum(operand: &Tensor, axes: &[usize]) -> Result<Tensor, TensorError> {
    sum_as(operand.dtype(), operand, axes)
}

/// Returns the sum over distinct `axes` of a tensor that is converted to a dtype.
#[track_caller]
pub(crate) fn sum_as(
    dtype: DType,
    operand: &Tensor,
    axes: &[usize],
) -> Result<Tensor, TensorError> {
    if axes.is_empty() && dtype != DType::Bool {
        return convert(operand, dtype);
    }
    let sum = Sum {
        axes: sorted(axes),
        dtype: (dtype != operand.dtype()).then_some(dtype),
    };
    bind_one(&sum, &[operand])
}

impl LinearPrimitive for Sum {
    fn name(&self) -> &'static str {
        "reduce_sum"
    }

    fn result(&self, operand: &AbstractArray) -> Result<AbstractArray, TensorError> {
        axes_exist("sum", operand, &self.axes)?;
        let dtype = reduced(self.dtype, operand);
        if dtype == DType::Bool {
            let expected =
                "numbers; count true elements with `count_nonzero` or `count_nonzero_axes`";
            return Err(TensorError::dtype("sum", &[operand], expected));
        }
        Ok(AbstractArray {
            dtype,
            shape: without_axes(&operand.shape, &self.axes),
        })
    }

    fn evaluate(&self, operand: Arc<Array>) -> Array {
        reduction::sum(&operand, reduced(self.dtype, &operand.info), &self.axes)
    }

    fn transpose(&self, cotangent: &Tensor, operand: &AbstractArray) -> Tensor {
        or_panic(broadcast_back(cotangent, &operand.shape, &self.axes))
    }

    fn batch(&self, operand: &Tensor, axis: usize) -> (Tensor, usize) {
        let (axes, axis) = batched_axes(&self.axes, axis);
        let dtype = reduced(self.dtype, operand.info());
        (or_panic(sum_as(dtype, operand, &axes)), axis)
    }

    fn lower(&self, block: &mut Block<'_>, operand: &Value, _: &AbstractArray) -> LoweredOne {
        let operand = lower_operand(block, operand, self.dtype)?;
        let start = number(operand.dtype(), 0.0);
        block.reduced("stablehlo.add", &operand, &start, &self.axes)
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(&self.axes, self.dtype, f)
    }

    fn widens_parts(&self) -> bool {
        true
    }

    fn reduction(&self) -> Option<(Fold, &[usize])> {
        self.dtype.is_none().then_some((Fold::Sum, &self.axes))
    }
}
