//! Single operations on a device. An operation is compiled once for its parameters and the shapes of its operands.
//!
//! The bodies of a loop are recorded in each call. Two loops are the same operation if their bodies have the same
//! equations. The tensors that the bodies have captured are operands of the program, so the same program runs with
//! other captured tensors.
use std::panic::Location;

use pytree_kernels::base::array::{Array, Operands};
use pytree_kernels::base::dtype::AbstractArray;
use smallvec::SmallVec;

use super::constants::{Constants, as_inputs, with_lifted_constants};
use super::current::{chosen, on_host};
use super::mesh::Layout;
use super::placement::of_tensors;
use super::program::Program;
use crate::base::error::TensorError;
use crate::tensor::checks;
use crate::tensor::handle::Tensor;
use crate::tensor::jaxpr::{Builder, Jaxpr};
use crate::tensor::primitive::{Outputs, Primitive};

/// Evaluates a primitive on the device of its operands. If all operands are on the host, evaluates it on the chosen
/// device.
#[cold]
pub(crate) fn evaluate(
    primitive: &dyn Primitive,
    operands: &[&Tensor],
    results: &Outputs<AbstractArray>,
    line: &'static Location<'static>,
) -> Result<Outputs<Tensor>, TensorError> {
    let constants = Constants::of(primitive);
    let all = operands.iter().chain(&constants.tensors).copied();
    let all: SmallVec<[&Tensor; 4]> = all.collect();
    let device = match of_tensors(all.iter().copied()) {
        Ok(Some(device)) => device.clone(),
        Ok(None) => chosen(),
        Err(mixed) => return Err(mixed.error(primitive.name(), &all)),
    };
    let Some(attached) = device.attached() else {
        return on_host_arrays(primitive, operands, line);
    };
    // A callback of the user runs on the host.
    let is_callback = primitive.has_effect() && primitive.bodies().is_empty();
    if checks::active() || is_callback {
        let results = on_host_arrays(primitive, operands, line)?.into_iter();
        return results.map(|result| device.put(&result)).collect();
    }
    let operations = &attached.operations;
    let layout = Layout::of(all.iter().copied());
    let slot = operations.of(primitive, (&all, &layout), &constants.positions);
    let program = slot.get_or_compile(|| {
        let mut jaxpr = alone(primitive, operands, results, line);
        if !constants.tensors.is_empty() {
            jaxpr = with_lifted_constants(jaxpr, |_| true);
            as_inputs(&mut jaxpr, &constants.tensors);
        }
        Program::compile(attached, primitive.name(), jaxpr, &layout)
    })?;
    let operands = all.into_iter().cloned().collect();
    Ok(program.run(attached, operands, None)?.into())
}

/// Evaluates a primitive on the host. Transfers operands that are on a device.
fn on_host_arrays(
    primitive: &dyn Primitive,
    operands: &[&Tensor],
    line: &'static Location<'static>,
) -> Result<Outputs<Tensor>, TensorError> {
    let operands: Operands = operands
        .iter()
        .map(|operand| operand.value().cloned())
        .collect::<Result<_, _>>()?;
    let _host = on_host();
    let results: Outputs<Array> = if checks::active() {
        checks::evaluate(primitive, operands, line, None)?
    } else {
        primitive.evaluate(operands)
    };
    Ok(results.into_iter().map(Tensor::from_array).collect())
}

/// Returns the jaxpr of one equation.
fn alone(
    primitive: &dyn Primitive,
    operands: &[&Tensor],
    results: &Outputs<AbstractArray>,
    line: &'static Location<'static>,
) -> Jaxpr {
    let mut builder = Builder::default();
    let operands = operands.iter();
    let inputs = operands
        .map(|it| builder.input(it.info().clone()))
        .collect();
    let outputs = builder.equation(primitive.to_shared(), inputs, results, line);
    let (jaxpr, _) = builder.finish(outputs.to_vec());
    jaxpr
}
