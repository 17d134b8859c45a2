//! A run of a jaxpr in which each result is checked for NaN.

use std::sync::Arc;

use crate::base::array::Array;
use crate::base::error::or_panic;
use crate::tensor::checks::evaluate;
use crate::tensor::jaxpr::Jaxpr;
use crate::tensor::primitive::Operands;

/// Runs a jaxpr as it was recorded, equation by equation, and looks at each result.
///
/// # Panics
/// If a result does not pass.
pub(crate) fn run_checked(jaxpr: &Jaxpr, inputs: Vec<Arc<Array>>) -> Vec<Arc<Array>> {
    let mut values: Vec<Option<Arc<Array>>> = vec![None; jaxpr.variables.len()];
    for (variable, tensor) in &jaxpr.constants {
        values[variable.index()] = tensor.array().cloned();
    }
    for (variable, input) in jaxpr.inputs.iter().zip(inputs) {
        values[variable.index()] = Some(input);
    }
    for (equation, shown) in jaxpr.equations.iter().zip(jaxpr.equations()) {
        let operands: Operands = equation
            .inputs
            .iter()
            .filter_map(|input| values[input.index()].clone())
            .collect();
        let results = evaluate(&*equation.primitive, operands, equation.line, Some(&shown));
        for (output, result) in equation.outputs.iter().zip(or_panic(results)) {
            values[output.index()] = Some(Arc::new(result));
        }
    }
    jaxpr
        .outputs
        .iter()
        .filter_map(|output| values[output.index()].clone())
        .collect()
}
