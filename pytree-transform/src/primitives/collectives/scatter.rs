//! The collective that sums over all examples of a batch and leaves each example with one slice of the sum.

use std::sync::Arc;

use pytree_kernels::base::shape::Shape;
use smallvec::SmallVec;

use super::processes;
use super::shared::{check_slices, lower_groups, lower_reduction, names_tuple, sum_of_examples};
use crate::base::axis_names::AxisName;
use crate::primitives::prelude::*;
use crate::primitives::shape::{batch_axis_first, move_axis};
use crate::tensor::linear_primitive::LinearPrimitive;
use crate::tensor::primitive::LoweredOne;
use crate::tensor::stablehlo::table;
use crate::tensor::trace::axis_length;

/// Sums the tensors of all examples. Example `i` keeps slice `i` of the sum along an axis, which is removed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ReduceScatter {
    pub(crate) name: [AxisName; 1],
    pub(crate) axis: usize,
    /// The number of examples in the batch.
    pub(crate) length: usize,
}

#[track_caller]
pub(crate) fn reduce_scatter(
    operand: &Tensor,
    name: &AxisName,
    axis: usize,
) -> Result<Tensor, TensorError> {
    let length = axis_length("psum_scatter", name)?;
    let name = [name.clone()];
    ReduceScatter { name, axis, length }.apply(operand)
}

impl LinearPrimitive for ReduceScatter {
    fn name(&self) -> &'static str {
        "reduce_scatter"
    }

    fn result(&self, operand: &AbstractArray) -> Result<AbstractArray, TensorError> {
        if operand.dtype == DType::Bool {
            return Err(TensorError::dtype("psum_scatter", &[operand], "numbers"));
        }
        let examples = (&self.name[0], self.length);
        check_slices("psum_scatter", operand, self.axis, examples)?;
        let mut result = operand.clone();
        result.shape.remove(self.axis);
        Ok(result)
    }

    fn evaluate(&self, operand: Arc<Array>) -> Array {
        processes::scattered(self, operand, &self.name[0], self.axis)
    }

    /// Gives each example the cotangents of all slices, because each example contributes to every slice.
    fn transpose(&self, cotangent: &Tensor, _: &AbstractArray) -> Tensor {
        let gather = AllGather {
            name: self.name.clone(),
            axis: self.axis,
            length: self.length,
        };
        or_panic(gather.apply(cotangent))
    }

    fn batch(&self, operand: &Tensor, axis: usize) -> (Tensor, usize) {
        let operand = or_panic(move_axis(operand, axis, 0));
        let behind = Self {
            axis: self.axis + 1,
            ..self.clone()
        };
        (or_panic(behind.apply(&operand)), 0)
    }

    fn lower(&self, block: &mut Block<'_>, operand: &Value, result: &AbstractArray) -> LoweredOne {
        let mut slice = operand.info.clone();
        slice.shape[self.axis] = 1;
        let attribute = format!("scatter_dimension = {} : i64, ", self.axis);
        let sum = lower_reduction(
            block,
            ("stablehlo.reduce_scatter", &attribute, "stablehlo.add"),
            operand,
            slice,
            &self.name,
        )?;
        Ok(block.reshaped(&sum, &result.shape))
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = names_tuple(&self.name);
        write!(
            f,
            "axis_name={names} axis_size={} scatter_dimension={}",
            self.length, self.axis
        )
    }

    fn axis_names(&self) -> &[AxisName] {
        &self.name
    }

    fn axis_length(&self) -> Option<usize> {
        Some(self.length)
    }

    /// Sums over the batch axis. Element `i` of the scattered axis belongs to example `i`, so the scattered axis becomes
    /// the batch axis of the result.
    fn batch_over(&self, operand: &Tensor, axis: Option<usize>, batch: &BatchAxis) -> Batched {
        let sum = sum_of_examples(operand, axis, batch);
        (one(sum), SmallVec::from_elem(Some(self.axis), 1))
    }
}

/// Stacks the tensors of all examples of a batch along a new axis.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AllGather {
    pub(crate) name: [AxisName; 1],
    pub(crate) axis: usize,
    pub(crate) length: usize,
}

/// Returns the tensors of all examples, stacked along a new axis.
#[track_caller]
pub(crate) fn all_gather(
    operand: &Tensor,
    name: &AxisName,
    axis: usize,
) -> Result<Tensor, TensorError> {
    let length = axis_length("all_gather", name)?;
    let name = [name.clone()];
    bind_one(&AllGather { name, axis, length }, &[operand])
}

impl LinearPrimitive for AllGather {
    fn name(&self) -> &'static str {
        "all_gather"
    }

    fn result(&self, operand: &AbstractArray) -> Result<AbstractArray, TensorError> {
        let mut result = operand.clone();
        if self.axis > result.rank() {
            return Err(TensorError::axis("all_gather", &result, self.axis));
        }
        result.shape.insert(self.axis, self.length);
        Ok(result)
    }

    fn evaluate(&self, operand: Arc<Array>) -> Array {
        processes::gathered(self, &operand, &self.name[0], self.axis)
    }

    /// Sums the cotangents of all examples, of which each example keeps the slice at its own position.
    fn transpose(&self, cotangent: &Tensor, _: &AbstractArray) -> Tensor {
        let scatter = ReduceScatter {
            name: self.name.clone(),
            axis: self.axis,
            length: self.length,
        };
        or_panic(scatter.apply(cotangent))
    }

    fn batch(&self, operand: &Tensor, axis: usize) -> (Tensor, usize) {
        let operand = or_panic(move_axis(operand, axis, 0));
        let gather = Self {
            axis: self.axis + 1,
            ..self.clone()
        };
        (or_panic(gather.apply(&operand)), 0)
    }

    fn lower(&self, block: &mut Block<'_>, operand: &Value, result: &AbstractArray) -> LoweredOne {
        let groups = lower_groups(block, std::slice::from_ref(operand), &self.name)?;
        let mut shape = Shape::from(operand.shape());
        shape.insert(self.axis, 1);
        let part = block.reshaped(operand, &shape);
        let attributes = format_args!(
            "all_gather_dim = {} : i64, replica_groups = {}",
            self.axis,
            table(&groups)
        );
        Ok(block.operation("stablehlo.all_gather", &[&part], attributes, result.clone()))
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = names_tuple(&self.name);
        write!(
            f,
            "all_gather_dimension={} axis_name={names} axis_size={}",
            self.axis, self.length
        )
    }

    fn axis_names(&self) -> &[AxisName] {
        &self.name
    }

    fn axis_length(&self) -> Option<usize> {
        Some(self.length)
    }

    fn batch_over(&self, operand: &Tensor, axis: Option<usize>, batch: &BatchAxis) -> Batched {
        let all = or_panic(batch_axis_first(operand, axis, batch.size));
        (one(or_panic(move_axis(&all, 0, self.axis))), one(None))
    }
}
