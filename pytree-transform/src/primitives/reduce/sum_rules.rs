//! The rules of sums.

use std::sync::Arc;

use pytree_kernels::base::fold::Fold;
use pytree_kernels::base::shape::without_axes;
use pytree_kernels::loops::reduction;

use super::axes::{axes_exist, batched_axes, broadcast_back, lower_operand, reduced, write};
use super::sum::{Sum, sum_as};
use crate::primitives::prelude::*;
use crate::tensor::linear_primitive::LinearPrimitive;
use crate::tensor::primitive::LoweredOne;
use crate::tensor::stablehlo::number;

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
