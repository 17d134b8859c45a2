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

use std::fmt;
use std::sync::Arc;

use pytree_base::bug::{bug, expect_next};
use pytree_kernels::base::array::{Array, Operands};
use pytree_kernels::base::dtype::{AbstractArray, DType};
use pytree_kernels::base::shape::Shape;
use pytree_kernels::loops::elementwise::Comparison;
use pytree_kernels::loops::reduction::Reduction;
use smallvec::{SmallVec, smallvec};

pub(crate) use self::permute::{all_to_all, ppermute};
use self::scatter::ReduceScatter;
pub(crate) use self::scatter::reduce_scatter;
use crate::base::axis_names::AxisName;
use crate::base::error::{TensorError, or_panic};
use crate::primitives::elementwise::compare;
use crate::primitives::shape::{batch_axis_first, move_axis};
use crate::primitives::{convert, create, reduce};
use crate::tensor::Tensor;
use crate::tensor::primitive::{
    AbstractResults, BatchAxis, Batched, Cotangents, Infos, Linear, LinearPrimitive, Lowered,
    LoweredOne, Outputs, Primitive, WithTangents, alone, not_linear, one, take as only_operands,
};
use crate::tensor::stablehlo::{Block, Bound, Value, table};
use crate::tensor::trace::{axis_length, bind_one};

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

/// Stacks the tensors of all examples of a batch along a new axis.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AllGather {
    pub(crate) name: [AxisName; 1],
    pub(crate) axis: usize,
    pub(crate) length: usize,
}

/// Returns the position of the current example along the batch axis, as an i32 without axes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AxisIndex {
    pub(crate) name: [AxisName; 1],
}

/// Panics because a collective is evaluated, although its axis is not an axis of a mesh of processes.
fn unbound(primitive: &dyn Primitive) -> ! {
    bug(format_args!(
        "`{}` to be evaluated only on a mesh of processes, and otherwise handled by the trace level of its axis",
        primitive.name()
    ))
}

/// The names of batch axes as displayed in a jaxpr, for instance `('i', 'j')`.
pub(super) struct Names<'a>(pub(super) &'a [AxisName]);

impl fmt::Display for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(")?;
        for (position, name) in self.0.iter().enumerate() {
            write!(f, "{}'{name}'", if position == 0 { "" } else { ", " })?;
        }
        f.write_str(if self.0.len() == 1 { ",)" } else { ")" })
    }
}

/// Returns the sum over the examples of a batch. Without a batch axis, all examples have the same tensor.
#[track_caller]
fn sum_of_examples(operand: &Tensor, axis: Option<usize>, batch: &BatchAxis) -> Tensor {
    match axis {
        Some(axis) => or_panic(reduce::sum(operand, &[axis])),
        None => operand * Tensor::constant(operand.dtype(), batch.size as f64),
    }
}

/// Returns an error if an axis of the operand does not have one slice for each of the `length` examples.
fn check_slices(
    operation: &'static str,
    operand: &AbstractArray,
    axis: usize,
    (name, length): (&AxisName, usize),
) -> Result<(), TensorError> {
    match operand.shape.get(axis) {
        None => Err(TensorError::axis(operation, operand, axis)),
        Some(&found) if found != length => Err(TensorError::shape(
            operation,
            &[operand],
            format!(
                "axis {axis} has length {found}, but the batch axis `{name}` has length {length}"
            ),
            "pass a tensor whose axis has one element for each example, or reshape the tensor first",
        )),
        Some(_) => Ok(()),
    }
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

/// Returns the position of the current example along the named batch axis, as an i32 without axes.
#[track_caller]
pub(crate) fn axis_index(name: &AxisName) -> Result<Tensor, TensorError> {
    let name = [name.clone()];
    bind_one(&AxisIndex { name }, &[])
}

/// Returns the groups of replicas whose values are combined over the named axes.
fn lower_groups(
    block: &Block<'_>,
    operands: &[Value],
    names: &[AxisName],
) -> Result<Vec<Vec<usize>>, TensorError> {
    let groups = block.mesh().groups(names);
    groups.ok_or_else(|| unknown_axis(block, operands, names))
}

/// Returns the error for a named axis that is not an axis of the module's replicas.
fn unknown_axis(block: &Block<'_>, operands: &[Value], names: &[AxisName]) -> TensorError {
    let problem = format!(
        "the jaxpr does not store the length of an axis of {}",
        Names(names)
    );
    let fix = "record the function inside of the `vmap` that names the axis";
    block.refused(operands, problem, fix)
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

/// Writes an operation between the replicas that differ only in their positions on the named axes. `operation` is the
/// name of the operation, its attributes before the groups, and the name of the operation that combines two elements.
fn lower_reduction(
    block: &mut Block<'_>,
    operation: (&str, &str, &str),
    operand: &Value,
    result: AbstractArray,
    names: &[AxisName],
) -> Result<Value, TensorError> {
    let (name, attributes, combine) = operation;
    let groups = lower_groups(block, std::slice::from_ref(operand), names)?;
    let attributes = format_args!("{attributes}replica_groups = {}", table(&groups));
    let element = AbstractArray::new(operand.dtype(), []);
    let results =
        block.operation_with_regions(name, &[operand], attributes, [result], |block| {
            block.region([element.clone(), element], |block, pair| {
                Ok(vec![block.binary(combine, &pair[0], &pair[1])])
            })
        })?;
    let mut results = results.into_iter();
    Ok(expect_next(&mut results, "the result of an operation"))
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

    fn accepts_narrow(&self) -> bool {
        true
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
        write!(f, "axes={}", Names(&self.names))
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

    fn accepts_narrow(&self) -> bool {
        true
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

    fn transpose(&self, _: &[Option<Tensor>], _: &[Linear]) -> Cotangents {
        not_linear(self)
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
        write!(f, "axes={}", Names(&self.names))
    }

    fn axis_names(&self) -> &[AxisName] {
        &self.names
    }
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

    fn accepts_narrow(&self) -> bool {
        true
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
        let names = Names(&self.name);
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
        write!(f, "axis_name={}", Names(&self.name))
    }

    fn axis_names(&self) -> &[AxisName] {
        &self.name
    }
}
