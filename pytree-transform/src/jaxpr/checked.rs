//! Runs a jaxpr and checks each result for NaN or infinities.

use std::sync::Arc;

use pytree_core::bug::{expect_some, pairs};

use crate::base::array::Array;
use crate::base::error::or_panic;
use crate::tensor::checks::evaluate;
use crate::tensor::jaxpr::{INPUTS, Jaxpr, OPERAND, OUTPUT, RESULTS, constant_array};
use crate::tensor::primitive::Operands;

/// Runs a jaxpr as it was recorded, equation by equation, and checks each result.
///
/// # Panics
/// Panics if a result contains a NaN or an infinity that the active checks forbid.
pub(crate) fn run_checked(jaxpr: &Jaxpr, inputs: Vec<Arc<Array>>) -> Vec<Arc<Array>> {
    let mut values: Vec<Option<Arc<Array>>> = vec![None; jaxpr.variables.len()];
    for (variable, tensor) in &jaxpr.constants {
        values[variable.index()] = Some(Arc::clone(constant_array(tensor)));
    }
    for (variable, input) in pairs(&jaxpr.inputs, inputs, INPUTS) {
        values[variable.index()] = Some(input);
    }
    for (equation, shown) in jaxpr.equations.iter().zip(jaxpr.equations()) {
        let operands: Operands = equation
            .inputs
            .iter()
            .map(|input| expect_some(values[input.index()].clone(), OPERAND))
            .collect();
        let results = evaluate(&*equation.primitive, operands, equation.line, Some(&shown));
        for (output, result) in pairs(&equation.outputs, or_panic(results), RESULTS) {
            values[output.index()] = Some(Arc::new(result));
        }
    }
    jaxpr
        .outputs
        .iter()
        .map(|output| expect_some(values[output.index()].clone(), OUTPUT))
        .collect()
}
