//! What all collectives share.

use std::fmt;

use pytree_base::bug::expect_next;
use pytree_base::lists::Tuple;
use pytree_kernels::base::dtype::AbstractArray;

use crate::base::axis_names::AxisName;
use crate::base::error::{TensorError, or_panic};
use crate::primitives::reduce;
use crate::tensor::Tensor;
use crate::tensor::primitive::BatchAxis;
use crate::tensor::stablehlo::{Block, Value, table};

/// Displays the names of batch axes as a jaxpr does, for instance `('i', 'j')`.
pub(super) fn names_tuple(names: &[AxisName]) -> impl fmt::Display {
    Tuple(names.iter().map(|name| format!("'{name}'")))
}

/// Returns the sum over the examples of a batch. Without a batch axis, all examples have the same tensor.
#[track_caller]
pub(super) fn sum_of_examples(operand: &Tensor, axis: Option<usize>, batch: &BatchAxis) -> Tensor {
    match axis {
        Some(axis) => or_panic(reduce::sum(operand, &[axis])),
        None => operand * Tensor::constant(operand.dtype(), batch.size as f64),
    }
}

/// Returns an error if an axis of the operand does not have one slice for each of the `length` examples.
pub(super) fn check_slices(
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

/// Returns the groups of replicas whose values are combined over the named axes.
pub(super) fn lower_groups(
    block: &Block<'_>,
    operands: &[Value],
    names: &[AxisName],
) -> Result<Vec<Vec<usize>>, TensorError> {
    let groups = block.mesh().groups(names);
    groups.ok_or_else(|| unknown_axis(block, operands, names))
}

/// Returns the error for a named axis that is not an axis of the module's replicas.
pub(super) fn unknown_axis(
    block: &Block<'_>,
    operands: &[Value],
    names: &[AxisName],
) -> TensorError {
    let problem = format!(
        "the jaxpr does not store the length of an axis of {}",
        names_tuple(names)
    );
    let fix = "record the function inside of the `vmap` that names the axis";
    block.refused(operands, problem, fix)
}

/// Writes an operation between the replicas that differ only in their positions on the named axes. `operation` is the
/// name of the operation, its attributes before the groups, and the name of the operation that combines two elements.
pub(super) fn lower_reduction(
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
