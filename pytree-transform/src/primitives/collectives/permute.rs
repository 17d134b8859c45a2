//! Collectives that send tensors from one example of a batch to another.

use std::sync::Arc;

use pytree_base::bug::expect_some;

use super::processes;
use super::shared::{check_slices, lower_groups, names_tuple};
use crate::base::axis_names::AxisName;
use crate::primitives::create::{self, broadcast_in_dim};
use crate::primitives::gather::take;
use crate::primitives::prelude::*;
use crate::primitives::select::select;
use crate::primitives::shape::{batch_axis_first, move_axis};
use crate::tensor::linear_primitive::LinearPrimitive;
use crate::tensor::primitive::LoweredOne;
use crate::tensor::stablehlo::table;
use crate::tensor::trace::axis_length;

/// Sends each example's tensor to another example. An example that receives nothing gets zeros.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PPermute {
    pub(crate) name: [AxisName; 1],
    /// The pairs of source and destination, as positions of examples.
    pub(crate) pairs: Arc<[(usize, usize)]>,
    /// The number of examples in the batch.
    pub(crate) length: usize,
}

/// Divides the split axis into one slice for each example, and sends slice `i` to example `i`. Each example stacks the
/// received slices along a new axis.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AllToAll {
    pub(crate) name: [AxisName; 1],
    pub(crate) split_axis: usize,
    /// The position of the new axis in the result.
    pub(crate) concat_axis: usize,
    /// The number of examples in the batch.
    pub(crate) length: usize,
}

#[track_caller]
pub(crate) fn ppermute(
    operand: &Tensor,
    name: &AxisName,
    pairs: Arc<[(usize, usize)]>,
) -> Result<Tensor, TensorError> {
    let length = axis_length("ppermute", name)?;
    let name = [name.clone()];
    PPermute {
        name,
        pairs,
        length,
    }
    .apply(operand)
}

#[track_caller]
pub(crate) fn all_to_all(
    operand: &Tensor,
    name: &AxisName,
    split_axis: usize,
    concat_axis: usize,
) -> Result<Tensor, TensorError> {
    let length = axis_length("all_to_all", name)?;
    AllToAll {
        name: [name.clone()],
        split_axis,
        concat_axis,
        length,
    }
    .apply(operand)
}

impl PPermute {
    /// Returns a message for each invalid pair.
    fn problems(&self) -> Vec<String> {
        let length = self.length;
        let mut problems = Vec::new();
        for (position, &(from, to)) in self.pairs.iter().enumerate() {
            let before = &self.pairs[..position];
            if from >= length || to >= length {
                problems.push(format!(
                    "the pair ({from}, {to}) is out of range for the batch axis `{}` of length {length}",
                    self.name[0]
                ));
            }
            if before.iter().any(|&(other, _)| other == from) {
                problems.push(format!("example {from} sends twice"));
            }
            if before.iter().any(|&(_, other)| other == to) {
                problems.push(format!("example {to} receives twice"));
            }
        }
        problems
    }
}

impl LinearPrimitive for PPermute {
    fn name(&self) -> &'static str {
        "ppermute"
    }

    fn result(&self, operand: &AbstractArray) -> Result<AbstractArray, TensorError> {
        let problems = self.problems();
        if problems.is_empty() {
            return Ok(operand.clone());
        }
        Err(TensorError::shape(
            "ppermute",
            &[operand],
            problems.join(", "),
            "pass pairs `(from, to)` such that each example sends at most once and receives at most once",
        ))
    }

    fn evaluate(&self, operand: Arc<Array>) -> Array {
        processes::permuted(self, &operand, &self.name[0], &self.pairs)
    }

    /// Sends the cotangents from the destinations back to the sources.
    fn transpose(&self, cotangent: &Tensor, _: &AbstractArray) -> Tensor {
        let back = self.pairs.iter().map(|&(from, to)| (to, from));
        let back = Self {
            pairs: back.collect(),
            ..self.clone()
        };
        or_panic(back.apply(cotangent))
    }

    fn batch(&self, operand: &Tensor, axis: usize) -> (Tensor, usize) {
        (or_panic(self.apply(operand)), axis)
    }

    fn lower(&self, block: &mut Block<'_>, operand: &Value, _: &AbstractArray) -> LoweredOne {
        let groups = lower_groups(block, std::slice::from_ref(operand), &self.name)?;
        let of_group = |group: &Vec<usize>| {
            let pairs = self.pairs.iter();
            let pairs = pairs.map(|&(from, to)| vec![group[from], group[to]]);
            pairs.collect::<Vec<_>>()
        };
        let pairs: Vec<Vec<usize>> = groups.iter().flat_map(of_group).collect();
        if pairs.is_empty() {
            return Ok(block.number_like(operand, 0.0));
        }
        let source_target_pairs = table(&pairs);
        let attributes = format_args!("source_target_pairs = {source_target_pairs}");
        let result = operand.info.clone();
        Ok(block.operation(
            "stablehlo.collective_permute",
            &[operand],
            attributes,
            result,
        ))
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "axis_name={} perm={:?}",
            names_tuple(&self.name),
            self.pairs
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
        let mut sources: Vec<Option<usize>> = vec![None; batch.size];
        for &(from, to) in &*self.pairs {
            sources[to] = Some(from);
        }
        // An example that receives nothing gets zeros below, so its source may be any valid position.
        let position = |source: &Option<usize>| i64::try_from(source.unwrap_or(0)).ok();
        let positions: Vec<i64> = sources
            .iter()
            .map(|source| expect_some(position(source), "a position that i64 holds"))
            .collect();
        let sent = or_panic(take(&all, &Tensor::from(positions), 0));
        if !sources.contains(&None) {
            return (one(sent), one(Some(0)));
        }
        let gets: Vec<bool> = sources.iter().map(Option::is_some).collect();
        let gets = or_panic(broadcast_in_dim(&Tensor::from(gets), sent.shape(), &[0]));
        let result = or_panic(select(&gets, &sent, &create::zeros_like(&sent)));
        (one(result), one(Some(0)))
    }
}

impl LinearPrimitive for AllToAll {
    fn name(&self) -> &'static str {
        "all_to_all"
    }

    fn result(&self, operand: &AbstractArray) -> Result<AbstractArray, TensorError> {
        let examples = (&self.name[0], self.length);
        check_slices("all_to_all", operand, self.split_axis, examples)?;
        if self.concat_axis >= operand.rank() {
            let axis = self.concat_axis;
            return Err(TensorError::axis("all_to_all", operand, axis));
        }
        let mut result = operand.clone();
        result.shape.remove(self.split_axis);
        result.shape.insert(self.concat_axis, self.length);
        Ok(result)
    }

    fn evaluate(&self, operand: Arc<Array>) -> Array {
        let (split, concat) = (self.split_axis, self.concat_axis);
        processes::exchanged(self, &operand, &self.name[0], split, concat)
    }

    /// Sends the cotangent of each slice back to the example that sent the slice.
    fn transpose(&self, cotangent: &Tensor, _: &AbstractArray) -> Tensor {
        let back = Self {
            split_axis: self.concat_axis,
            concat_axis: self.split_axis,
            ..self.clone()
        };
        or_panic(back.apply(cotangent))
    }

    fn batch(&self, operand: &Tensor, axis: usize) -> (Tensor, usize) {
        let operand = or_panic(move_axis(operand, axis, 0));
        let behind = Self {
            split_axis: self.split_axis + 1,
            concat_axis: self.concat_axis + 1,
            ..self.clone()
        };
        (or_panic(behind.apply(&operand)), 0)
    }

    fn lower(&self, block: &mut Block<'_>, operand: &Value, _: &AbstractArray) -> LoweredOne {
        let groups = lower_groups(block, std::slice::from_ref(operand), &self.name)?;
        let parts = block.with_moved_axis(operand, self.split_axis, 0);
        let attributes = format_args!(
            "split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = {} : i64, replica_groups = {}",
            self.length,
            table(&groups)
        );
        let result = parts.info.clone();
        let received = block.operation("stablehlo.all_to_all", &[&parts], attributes, result);
        Ok(block.with_moved_axis(&received, 0, self.concat_axis))
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = names_tuple(&self.name);
        write!(
            f,
            "axis_name={names} concat_axis={} split_axis={}",
            self.concat_axis, self.split_axis
        )
    }

    fn axis_names(&self) -> &[AxisName] {
        &self.name
    }

    fn axis_length(&self) -> Option<usize> {
        Some(self.length)
    }

    /// Evaluates the exchange when the batch axis is mapped. Element `i` of the split axis is sent to example `i`, so
    /// the split axis becomes the batch axis of the result. The position on the old batch axis identifies the sender.
    /// The old batch axis becomes an axis of the result.
    fn batch_over(&self, operand: &Tensor, axis: Option<usize>, batch: &BatchAxis) -> Batched {
        let all = or_panic(batch_axis_first(operand, axis, batch.size));
        let by_receiver = or_panic(move_axis(&all, self.split_axis + 1, 0));
        let result = or_panic(move_axis(&by_receiver, 1, self.concat_axis + 1));
        (one(result), one(Some(0)))
    }
}
