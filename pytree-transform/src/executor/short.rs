//! Translates a jaxpr that only computes elementwise with few elements into a short program, which loops run.

use std::any::Any;
use std::sync::Arc;

use pytree_kernels::base::array::{Array, Operands};
use pytree_kernels::base::dtype::DType;
use pytree_kernels::loops::elementwise::short::{Register, ShortBuilder, ShortProgram};
use smallvec::SmallVec;

use crate::primitives::create::{Broadcast, Full, Iota};
use crate::primitives::random::Threefry2x32;
use crate::primitives::shape::{Reshape, Transpose};
use crate::primitives::slice::{Concatenate, Reverse, Slice};
use crate::tensor::evaluation::evaluate;
use crate::tensor::jaxpr::{Equation, Jaxpr, constant_array};

/// The greatest number of values of a short program, so that translation takes no time for other programs.
const MOST_VALUES: usize = 1024;

/// Returns the short program of a jaxpr, or `None` if it has a value or an equation that short programs do not have.
pub(super) fn short(jaxpr: &Jaxpr) -> Option<ShortProgram> {
    if jaxpr.variables.len() > MOST_VALUES {
        return None;
    }
    let mut builder = ShortBuilder::default();
    let mut registers: Vec<Option<Register>> = vec![None; jaxpr.variables.len()];
    for &input in &jaxpr.inputs {
        registers[input.index()] = Some(builder.input(jaxpr.info(input))?);
    }
    for (variable, tensor) in &jaxpr.constants {
        registers[variable.index()] = Some(builder.constant(constant_array(tensor))?);
    }
    for equation in &jaxpr.equations {
        let inputs = equation.inputs.iter();
        let operands: Option<SmallVec<[Register; 4]>> =
            inputs.map(|input| registers[input.index()]).collect();
        let results = add(&mut builder, jaxpr, equation, &operands?)?;
        for (output, result) in equation.outputs.iter().zip(results) {
            registers[output.index()] = Some(result);
        }
    }
    let outputs = jaxpr.outputs.iter();
    let outputs: Option<Vec<Register>> = outputs.map(|output| registers[output.index()]).collect();
    builder.finish(&outputs?)
}

/// Adds an equation. Returns the registers of its results.
fn add(
    builder: &mut ShortBuilder,
    jaxpr: &Jaxpr,
    equation: &Equation,
    operands: &[Register],
) -> Option<SmallVec<[Register; 2]>> {
    let info = jaxpr.info(*equation.outputs.first()?);
    let primitive: &dyn Any = &*equation.primitive;
    if primitive.is::<Threefry2x32>() {
        return Some(builder.threefry(operands, info)?.into());
    }
    let result = if let Some(operation) = equation.primitive.elementwise() {
        builder.elementwise(operation, operands, info)?
    } else if primitive.is::<Full>() || primitive.is::<Iota>() {
        let results = evaluate(&*equation.primitive, Operands::new());
        builder.constant(results.first()?)?
    } else if moves(primitive) {
        builder.moved(operands, &sources(jaxpr, equation)?, info)?
    } else {
        return None;
    };
    Some(smallvec::smallvec![result])
}

/// Returns whether a primitive only moves elements, to places that depend on shapes.
fn moves(primitive: &dyn Any) -> bool {
    primitive.is::<Broadcast>()
        || primitive.is::<Concatenate>()
        || primitive.is::<Reshape>()
        || primitive.is::<Reverse>()
        || primitive.is::<Slice>()
        || primitive.is::<Transpose>()
}

/// Returns the position of each element of the result among the elements of all operands, by moving their positions.
fn sources(jaxpr: &Jaxpr, equation: &Equation) -> Option<Vec<usize>> {
    let mut positions = 0_i32..;
    let of_input = |input| {
        let info = jaxpr.info(input);
        let positions = positions.by_ref().take(info.len()).collect();
        Arc::new(Array::new::<i32>(&info.shape, positions))
    };
    let operands: Operands = equation.inputs.iter().copied().map(of_input).collect();
    let results = evaluate(&*equation.primitive, operands);
    let moved = results
        .first()
        .filter(|moved| moved.dtype() == DType::I32)?;
    let moved = moved.elements::<i32>().iter();
    moved
        .map(|&position| usize::try_from(position).ok())
        .collect()
}
