//! Removes what no output needs.

use crate::tensor::jaxpr::Jaxpr;

/// Removes the equations and constants that neither an output nor an effect needs.
pub(crate) fn dead_code(mut jaxpr: Jaxpr) -> Jaxpr {
    let mut needed = vec![false; jaxpr.variables.len()];
    jaxpr
        .outputs
        .iter()
        .for_each(|output| needed[output.index()] = true);
    let mut kept = Vec::with_capacity(jaxpr.equations.len());
    for equation in jaxpr.equations.into_iter().rev() {
        let mut outputs = equation.outputs.iter();
        if outputs.any(|output| needed[output.index()]) || equation.primitive.has_effect() {
            equation
                .inputs
                .iter()
                .for_each(|input| needed[input.index()] = true);
            kept.push(equation);
        }
    }
    kept.reverse();
    jaxpr.equations = kept;
    jaxpr
        .constants
        .retain(|(variable, _)| needed[variable.index()]);
    jaxpr
}
