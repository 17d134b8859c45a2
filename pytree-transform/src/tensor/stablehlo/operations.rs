//! The operations of StableHLO that rules write, with their attributes and result types.

use std::fmt::Write as _;

use pytree_kernels::base::dtype::{AbstractArray, DType};
use pytree_kernels::base::shape::{AxisList, PerAxis, Shape};
use smallvec::SmallVec;

use crate::base::error::TensorError;
use crate::tensor::stablehlo::block::{Block, Value, single};
use crate::tensor::stablehlo::types::Array64;

/// The correspondence between the axes of the operand, the indices and the slices in a gather or scatter. The fields
/// have the names of a gather. A scatter uses the same axes in the other direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct GatherAxes {
    /// The axes of the slices that are axes of the operand.
    pub(crate) offset: AxisList,
    /// The axes of the operand that the slices lack.
    pub(crate) collapsed: AxisList,
    /// The axes of the operand that the indices share.
    pub(crate) operand_batch: AxisList,
    /// The axes of the indices that the operand shares.
    pub(crate) indices_batch: AxisList,
    /// For each component of an index, the axis of the operand whose position the component gives.
    pub(crate) indexed: AxisList,
    /// The axis of the indices that holds the components of an index.
    pub(crate) components: usize,
}

impl Block<'_> {
    /// Writes an operation on one value whose result has the same dtype and shape.
    pub(crate) fn unary(&mut self, name: &str, operand: &Value) -> Value {
        self.operation(name, &[operand], format_args!(""), operand.info.clone())
    }

    /// Writes an operation on two values whose result has the dtype and shape of the first value.
    pub(crate) fn binary(&mut self, name: &str, left: &Value, right: &Value) -> Value {
        self.operation(name, &[left, right], format_args!(""), left.info.clone())
    }

    /// Writes an operation on a value and a number, which becomes a constant.
    pub(crate) fn binary_with(&mut self, name: &str, left: &Value, right: f64) -> Value {
        let right = self.number_like(left, right);
        self.binary(name, left, &right)
    }

    /// Compares two values. `direction` is `EQ`, `NE`, `LT`, `LE`, `GT` or `GE`.
    pub(crate) fn comparison(&mut self, direction: &str, left: &Value, right: &Value) -> Value {
        let attributes =
            format_args!("comparison_direction = #stablehlo<comparison_direction {direction}>");
        let result = AbstractArray::new(DType::Bool, &left.info.shape);
        self.operation("stablehlo.compare", &[left, right], attributes, result)
    }

    /// Compares a value with a number.
    pub(crate) fn comparison_with(&mut self, direction: &str, left: &Value, right: f64) -> Value {
        let right = self.number_like(left, right);
        self.comparison(direction, left, &right)
    }

    /// Returns whether each element is NaN.
    pub(crate) fn is_not_a_number(&mut self, value: &Value) -> Value {
        self.comparison("NE", value, value)
    }

    pub(crate) fn selection(
        &mut self,
        condition: &Value,
        on_true: &Value,
        on_false: &Value,
    ) -> Value {
        let operands = [condition, on_true, on_false];
        let result = on_true.info.clone();
        self.operation("stablehlo.select", &operands, format_args!(""), result)
    }

    /// Converts a value by `stablehlo.convert`. The result is not defined for a float outside of the range of an
    /// integer dtype.
    pub(crate) fn converted(&mut self, operand: &Value, dtype: DType) -> Value {
        if operand.dtype() == dtype {
            return operand.clone();
        }
        let result = AbstractArray::new(dtype, &operand.info.shape);
        self.operation("stablehlo.convert", &[operand], format_args!(""), result)
            .converted_from(operand)
    }

    /// Writes a tensor in which each element is its own position along an axis.
    pub(crate) fn positions(&mut self, info: &AbstractArray, axis: usize) -> Value {
        let attributes = format_args!("iota_dimension = {axis} : i64");
        self.operation("stablehlo.iota", &[], attributes, info.clone())
    }

    /// Maps axis `i` of the operand to axis `axes[i]` of the result, and repeats the operand along the other axes.
    pub(crate) fn broadcast(&mut self, operand: &Value, shape: &[usize], axes: &[usize]) -> Value {
        if operand.shape() == shape {
            return operand.clone();
        }
        let result = AbstractArray::new(operand.dtype(), shape);
        let broadcast_dimensions = Array64(axes);
        let attributes = format_args!("broadcast_dimensions = {broadcast_dimensions}");
        self.operation("stablehlo.broadcast_in_dim", &[operand], attributes, result)
    }

    pub(crate) fn reshaped(&mut self, operand: &Value, shape: &[usize]) -> Value {
        if operand.shape() == shape {
            return operand.clone();
        }
        let result = AbstractArray::new(operand.dtype(), shape);
        self.operation("stablehlo.reshape", &[operand], format_args!(""), result)
    }

    /// Permutes the axes: axis `i` of the result is axis `permutation[i]` of the operand.
    pub(crate) fn transposed(&mut self, operand: &Value, permutation: &[usize]) -> Value {
        let shape = permutation.iter().map(|&axis| operand.shape()[axis]);
        let result = AbstractArray {
            dtype: operand.dtype(),
            shape: shape.collect(),
        };
        let permutation = Array64(permutation);
        let attributes = format_args!("permutation = {permutation}");
        self.operation("stablehlo.transpose", &[operand], attributes, result)
    }

    /// Moves axis `from` to position `to`. The other axes keep their order.
    pub(crate) fn with_moved_axis(&mut self, operand: &Value, from: usize, to: usize) -> Value {
        if from == to {
            return operand.clone();
        }
        let mut permutation: AxisList = (0..operand.rank()).filter(|&axis| axis != from).collect();
        permutation.insert(to, from);
        self.transposed(operand, &permutation)
    }

    /// Selects, along each axis, every `stride`-th element from `start` up to, but not including, `limit`.
    pub(crate) fn sliced(
        &mut self,
        operand: &Value,
        start: &[usize],
        limit: &[usize],
        stride: &[usize],
    ) -> Value {
        let length = |axis: usize| (limit[axis] - start[axis]).div_ceil(stride[axis]);
        let result = AbstractArray {
            dtype: operand.dtype(),
            shape: (0..operand.rank()).map(length).collect(),
        };
        let attributes = format_args!(
            "start_indices = {}, limit_indices = {}, strides = {}",
            Array64(start),
            Array64(limit),
            Array64(stride)
        );
        self.operation("stablehlo.slice", &[operand], attributes, result)
    }

    /// Reverses the elements along some axes.
    pub(crate) fn reversed(&mut self, operand: &Value, axes: &[usize]) -> Value {
        let dimensions = Array64(axes);
        let attributes = format_args!("dimensions = {dimensions}");
        let result = operand.info.clone();
        self.operation("stablehlo.reverse", &[operand], attributes, result)
    }

    pub(crate) fn concatenated(&mut self, operands: &[Value], axis: usize) -> Value {
        let mut result = operands[0].info.clone();
        result.shape[axis] = operands.iter().map(|operand| operand.shape()[axis]).sum();
        let operands: SmallVec<[&Value; 4]> = operands.iter().collect();
        let attributes = format_args!("dimension = {axis} : i64");
        self.operation("stablehlo.concatenate", &operands, attributes, result)
    }

    /// Pads each axis before, after and between the elements. Negative numbers remove elements.
    pub(crate) fn padded(
        &mut self,
        operand: &Value,
        value: &Value,
        low: &[isize],
        high: &[isize],
        interior: &[usize],
    ) -> Value {
        let length = |axis: usize| {
            let length = operand.shape()[axis];
            let between = length.saturating_sub(1) * interior[axis];
            (length + between).saturating_add_signed(low[axis].saturating_add(high[axis]))
        };
        let result = AbstractArray {
            dtype: operand.dtype(),
            shape: (0..operand.rank()).map(length).collect(),
        };
        let attributes = format_args!(
            "edge_padding_low = {}, edge_padding_high = {}, interior_padding = {}",
            Array64(low),
            Array64(high),
            Array64(interior)
        );
        self.operation("stablehlo.pad", &[operand, value], attributes, result)
    }

    /// Reduces a value over axes by an operation on two elements. The reduction begins with `start`.
    pub(crate) fn reduced(
        &mut self,
        name: &str,
        operand: &Value,
        start: &str,
        axes: &[usize],
    ) -> Result<Value, TensorError> {
        let element = AbstractArray::new(operand.dtype(), []);
        let start = self.splat(&element, start);
        let combine = |block: &mut Block<'_>, pair: &[Value]| {
            Ok(vec![block.binary(name, &pair[0], &pair[1])])
        };
        let results = self.reduced_by(&[operand], &[start], axes, combine)?;
        Ok(single(results))
    }

    /// Reduces several values of the same shape together. `combine` takes one element of each value twice: first the
    /// left elements, then the right elements. The result of `combine` is a combined element for each value.
    pub(crate) fn reduced_by(
        &mut self,
        operands: &[&Value],
        starts: &[Value],
        axes: &[usize],
        combine: impl FnOnce(&mut Block<'_>, &[Value]) -> Result<Vec<Value>, TensorError>,
    ) -> Result<Vec<Value>, TensorError> {
        let kept = |operand: &&Value| AbstractArray {
            dtype: operand.dtype(),
            shape: (0..operand.rank())
                .filter(|axis| !axes.contains(axis))
                .map(|axis| operand.shape()[axis])
                .collect(),
        };
        let results: Vec<AbstractArray> = operands.iter().map(kept).collect();
        let all: Vec<&Value> = operands.iter().copied().chain(starts).collect();
        let elements = starts.iter().chain(starts).map(|start| start.info.clone());
        let elements: Vec<AbstractArray> = elements.collect();
        let dimensions = Array64(axes);
        let attributes = format_args!("dimensions = {dimensions}");
        self.operation_with_regions("stablehlo.reduce", &all, attributes, results, |block| {
            block.region(elements, |block, arguments| combine(block, arguments))
        })
    }

    /// Reads one slice for each index.
    pub(crate) fn gathered(
        &mut self,
        operand: &Value,
        indices: &Value,
        axes: &GatherAxes,
        result: &AbstractArray,
    ) -> Value {
        let single =
            |axis: &usize| axes.collapsed.contains(axis) || axes.operand_batch.contains(axis);
        let sizes: PerAxis = (0..operand.rank())
            .map(|axis| {
                if single(&axis) {
                    1
                } else {
                    operand.shape()[axis]
                }
            })
            .collect();
        let mut numbers = String::new();
        let GatherAxes {
            offset,
            collapsed,
            operand_batch,
            indices_batch,
            indexed,
            components,
        } = axes;
        let _ = write!(
            numbers,
            "offset_dims = {offset:?}, collapsed_slice_dims = {collapsed:?}, operand_batching_dims = {operand_batch:?}, start_indices_batching_dims = {indices_batch:?}, start_index_map = {indexed:?}, index_vector_dim = {components}"
        );
        let attributes = format_args!(
            "dimension_numbers = #stablehlo.gather<{numbers}>, indices_are_sorted = false, slice_sizes = {}",
            Array64(&sizes)
        );
        self.operation(
            "stablehlo.gather",
            &[operand, indices],
            attributes,
            result.clone(),
        )
    }

    /// Combines slices of the operand with slices of the updates, by an operation on two elements. Each index selects
    /// one slice of the operand.
    pub(crate) fn scattered(
        &mut self,
        name: &str,
        operand: &Value,
        indices: &Value,
        updates: &Value,
        axes: &GatherAxes,
    ) -> Result<Value, TensorError> {
        let GatherAxes {
            offset,
            collapsed,
            operand_batch,
            indices_batch,
            indexed,
            components,
        } = axes;
        let attributes = format_args!(
            "indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = {offset:?}, inserted_window_dims = {collapsed:?}, input_batching_dims = {operand_batch:?}, scatter_indices_batching_dims = {indices_batch:?}, scatter_dims_to_operand_dims = {indexed:?}, index_vector_dim = {components}>, unique_indices = false"
        );
        let element = AbstractArray::new(operand.dtype(), []);
        let results = self.operation_with_regions(
            "stablehlo.scatter",
            &[operand, indices, updates],
            attributes,
            [operand.info.clone()],
            |block| {
                block.region([element.clone(), element], |block, pair| {
                    Ok(vec![block.binary(name, &pair[0], &pair[1])])
                })
            },
        )?;
        Ok(single(results))
    }

    /// Runs `body` on a carry while `condition` holds.
    pub(crate) fn while_loop(
        &mut self,
        carry: &[Value],
        condition: impl FnOnce(&mut Block<'_>, &[Value]) -> Result<Vec<Value>, TensorError>,
        body: impl FnOnce(&mut Block<'_>, &[Value]) -> Result<Vec<Value>, TensorError>,
    ) -> Result<Vec<Value>, TensorError> {
        let infos: Vec<AbstractArray> = carry.iter().map(|value| value.info.clone()).collect();
        let operands: Vec<&Value> = carry.iter().collect();
        let (first, second) = (infos.clone(), infos.clone());
        let none = format_args!("");
        self.operation_with_regions("stablehlo.while", &operands, none, infos, |block| {
            block.region(first, |block, carry| condition(block, carry))?;
            block.region(second, |block, carry| body(block, carry))
        })
    }

    /// Reads the element at `position` on the first axis, without this axis. `position` is a scalar integer.
    pub(crate) fn element_at(&mut self, stacked: &Value, position: &Value) -> Value {
        let zero = self.number_like(position, 0.0);
        let mut sizes = PerAxis::from_slice(stacked.shape());
        sizes[0] = 1;
        let mut starts: SmallVec<[&Value; 4]> = smallvec::smallvec![position];
        starts.extend((1..stacked.rank()).map(|_| &zero));
        let part = self.window(stacked, &starts, &sizes);
        self.reshaped(&part, &stacked.shape()[1..])
    }

    /// Returns a stacked value with the element at `position` on the first axis replaced by `part`.
    pub(crate) fn with_element(
        &mut self,
        stacked: &Value,
        part: &Value,
        position: &Value,
    ) -> Value {
        let zero = self.number_like(position, 0.0);
        let shape: Shape = std::iter::once(1)
            .chain(part.shape().iter().copied())
            .collect();
        let part = self.reshaped(part, &shape);
        let mut starts: SmallVec<[&Value; 4]> = smallvec::smallvec![position];
        starts.extend((1..stacked.rank()).map(|_| &zero));
        self.with_window(stacked, &part, &starts)
    }

    /// Reads the window with the lengths `sizes` that begins at the scalars `starts`.
    pub(crate) fn window(&mut self, value: &Value, starts: &[&Value], sizes: &[usize]) -> Value {
        let mut operands: SmallVec<[&Value; 4]> = smallvec::smallvec![value];
        operands.extend_from_slice(starts);
        let slice_sizes = Array64(sizes);
        let attributes = format_args!("slice_sizes = {slice_sizes}");
        let result = AbstractArray::new(value.dtype(), sizes);
        self.operation("stablehlo.dynamic_slice", &operands, attributes, result)
    }

    /// Returns a value with the window that begins at the scalars `starts` replaced by `update`.
    pub(crate) fn with_window(
        &mut self,
        value: &Value,
        update: &Value,
        starts: &[&Value],
    ) -> Value {
        let mut operands: SmallVec<[&Value; 4]> = smallvec::smallvec![value, update];
        operands.extend_from_slice(starts);
        let result = value.info.clone();
        let name = "stablehlo.dynamic_update_slice";
        self.operation(name, &operands, format_args!(""), result)
    }
}
