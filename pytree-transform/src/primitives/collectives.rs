//! Primitives over named batch axes, which combine the examples of a `vmap`.
//!
//! Inside the function that a `vmap` maps, `psum` is an operation on the tensor of one example. The trace level of the
//! `vmap` that binds the axis name turns `psum` into a sum over the batch axis. All other trace levels batch,
//! differentiate and record `psum` by the ordinary rules. A name that no `vmap` binds is an error. While a recorded function
//! runs on a mesh of processes, the collective is evaluated: it communicates with the other processes.
//!
//! A property of a batch axis that a shape rule needs, such as the length, is a parameter of the primitive. So the
//! shape rule gives the same result when an operation is applied and when the verifier reads the jaxpr.

pub(crate) mod permute;
pub(crate) mod processes;
pub(crate) mod scatter;
mod shared;

use std::sync::Arc;

use pytree_kernels::loops::elementwise::Comparison;
use pytree_kernels::loops::reduction::Reduction;
use smallvec::SmallVec;

use self::shared::{lower_reduction, names_tuple, sum_of_examples, unknown_axis};
use crate::base::axis_names::AxisName;
use crate::primitives::elementwise::compare;
use crate::primitives::prelude::*;
use crate::primitives::{convert, create, reduce};
use crate::tensor::linear_primitive::LinearPrimitive;
use crate::tensor::primitive::{LoweredOne, take as only_operands};
use crate::tensor::stablehlo::Bound;

pub(crate) use self::permute::{all_to_all, ppermute};
pub(crate) use self::scatter::all_gather;
pub(crate) use self::scatter::reduce_scatter;

/// Sums over all examples of a batch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PSum {
    pub(crate) names: SmallVec<[AxisName; 1]>,
}

/// Takes the maximum over all examples of a batch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PMax {
    pub(crate) names: SmallVec<[AxisName; 1]>,
}

/// Returns the position of the current example along the batch axis, as an i32 without axes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AxisIndex {
    pub(crate) name: [AxisName; 1],
}

fn without(names: &[AxisName], batch: &BatchAxis) -> SmallVec<[AxisName; 1]> {
    let rest = names
        .iter()
        .filter(|name| batch.name.as_ref() != Some(*name));
    rest.cloned().collect()
}

/// Returns the sum over the examples of the named batch axes. Returns the tensor itself if there are no names.
#[track_caller]
pub(crate) fn psum(operand: &Tensor, names: &[AxisName]) -> Result<Tensor, TensorError> {
    if names.is_empty() {
        return Ok(operand.clone());
    }
    bind_one(
        &PSum {
            names: names.iter().cloned().collect(),
        },
        &[operand],
    )
}

/// Returns the maximum over the examples of the named batch axes. Returns the tensor itself if there are no names.
#[track_caller]
pub(crate) fn pmax(operand: &Tensor, names: &[AxisName]) -> Result<Tensor, TensorError> {
    if names.is_empty() {
        return Ok(operand.clone());
    }
    bind_one(
        &PMax {
            names: names.iter().cloned().collect(),
        },
        &[operand],
    )
}

/// Returns the position of the current example along the named batch axis, as an i32 without axes.
#[track_caller]
pub(crate) fn axis_index(name: &AxisName) -> Result<Tensor, TensorError> {
    let name = [name.clone()];
    bind_one(&AxisIndex { name }, &[])
}

/// Combines the values of all replicas that differ only in their positions on the named axes.
fn lower_all_reduce(
    block: &mut Block<'_>,
    name: &str,
    operand: &Value,
    names: &[AxisName],
) -> Result<Value, TensorError> {
    let result = operand.info.clone();
    lower_reduction(
        block,
        ("stablehlo.all_reduce", "", name),
        operand,
        result,
        names,
    )
}

impl LinearPrimitive for PSum {
    fn name(&self) -> &'static str {
        "psum"
    }

    fn result(&self, operand: &AbstractArray) -> Result<AbstractArray, TensorError> {
        if operand.dtype == DType::Bool {
            return Err(TensorError::dtype("psum", &[operand], "numbers"));
        }
        Ok(operand.clone())
    }

    fn evaluate(&self, operand: Arc<Array>) -> Array {
        let sum = reduce::Sum {
            axes: smallvec![0],
            dtype: None,
        };
        processes::reduced(self, operand, &self.names, &sum)
    }

    /// Returns the sum of the cotangents of all examples, because each example contributes to every example's result.
    fn transpose(&self, cotangent: &Tensor, _: &AbstractArray) -> Tensor {
        or_panic(self.apply(cotangent))
    }

    fn batch(&self, operand: &Tensor, axis: usize) -> (Tensor, usize) {
        (or_panic(self.apply(operand)), axis)
    }

    fn lower(&self, block: &mut Block<'_>, operand: &Value, _: &AbstractArray) -> LoweredOne {
        lower_all_reduce(block, "stablehlo.add", operand, &self.names)
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "axes={}", names_tuple(&self.names))
    }

    fn axis_names(&self) -> &[AxisName] {
        &self.names
    }

    /// Sums over the batch axis. A value without a batch axis is multiplied by the number of examples.
    fn batch_over(&self, operand: &Tensor, axis: Option<usize>, batch: &BatchAxis) -> Batched {
        let sum = sum_of_examples(operand, axis, batch);
        let rest = without(&self.names, batch);
        (one(or_panic(psum(&sum, &rest))), one(None))
    }
}

impl Primitive for PMax {
    fn name(&self) -> &'static str {
        "pmax"
    }

    fn abstract_evaluation(&self, operands: &[&AbstractArray]) -> AbstractResults {
        Ok(one(operands[0].clone()))
    }

    fn evaluate(&self, operands: Operands) -> Outputs<Array> {
        let [operand] = only_operands(operands);
        let maximum = reduce::Reduce {
            reduction: Reduction::Max,
            axes: smallvec![0],
            dtype: None,
        };
        one(processes::reduced(self, operand, &self.names, &maximum))
    }

    /// Computes the tangent of the maximum: the mean tangent of the examples that have the maximum. A maximum over an
    /// axis uses the same formula.
    fn jvp(&self, primals: &[Tensor], tangents: &[Option<Tensor>]) -> WithTangents {
        let maximum = or_panic(pmax(&primals[0], &self.names));
        let tangent = tangents[0].as_ref().map(|tangent| {
            let chosen = or_panic(compare(Comparison::Eq, &primals[0], &maximum));
            let chosen = or_panic(convert::convert(&chosen, tangent.dtype()));
            let total = or_panic(psum(&(tangent * &chosen), &self.names));
            total / or_panic(psum(&chosen, &self.names))
        });
        (one(maximum), one(tangent))
    }

    fn batch(&self, operands: &[Tensor], axes: &[Option<usize>], batch: &BatchAxis) -> Batched {
        if batch.name.is_none() {
            return (one(or_panic(pmax(&operands[0], &self.names))), one(axes[0]));
        }
        let maximum = match axes[0] {
            Some(axis) => or_panic(reduce::reduce_by(Reduction::Max, &operands[0], &[axis])),
            None => operands[0].clone(),
        };
        let rest = without(&self.names, batch);
        (one(or_panic(pmax(&maximum, &rest))), one(None))
    }

    fn lower(&self, block: &mut Block<'_>, operands: &[Value], _: &Infos<'_>) -> Lowered {
        let maximum = |block: &mut Block<'_>, keys: &[Value]| {
            lower_all_reduce(block, "stablehlo.maximum", &keys[0], &self.names)
        };
        block
            .extremum_with_nan(Bound::Greatest, &[&operands[0]], maximum)
            .map(one)
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "axes={}", names_tuple(&self.names))
    }

    fn axis_names(&self) -> &[AxisName] {
        &self.names
    }
}

impl Primitive for AxisIndex {
    fn name(&self) -> &'static str {
        "axis_index"
    }

    fn abstract_evaluation(&self, _: &[&AbstractArray]) -> AbstractResults {
        Ok(one(Tensor::constant(DType::I32, 0.0).info().clone()))
    }

    fn evaluate(&self, _: Operands) -> Outputs<Array> {
        one(processes::position(self, &self.name[0]))
    }

    fn jvp(&self, primals: &[Tensor], _: &[Option<Tensor>]) -> WithTangents {
        alone(self, primals)
    }

    fn transpose(&self, _: &[Option<Tensor>], _: &[Linear]) -> Cotangents {
        smallvec![]
    }

    fn batch(&self, operands: &[Tensor], _: &[Option<usize>], batch: &BatchAxis) -> Batched {
        if batch.name.is_none() {
            return alone(self, operands);
        }
        let positions = or_panic(create::iota(DType::I32, &[batch.size], 0));
        (one(positions), one(Some(0)))
    }

    fn lower(&self, block: &mut Block<'_>, operands: &[Value], _: &Infos<'_>) -> Lowered {
        let Some((length, stride)) = block.mesh().axis(&self.name[0]) else {
            return Err(unknown_axis(block, operands, &self.name));
        };
        let dtype = AbstractArray::new(DType::U32, []);
        let replica = block.operation("stablehlo.replica_id", &[], format_args!(""), dtype);
        let position = block.binary_with("stablehlo.divide", &replica, stride as f64);
        let position = block.binary_with("stablehlo.remainder", &position, length as f64);
        Ok(one(block.converted(&position, DType::I32)))
    }

    fn write_parameters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "axis_name={}", names_tuple(&self.name))
    }

    fn axis_names(&self) -> &[AxisName] {
        &self.name
    }
}
