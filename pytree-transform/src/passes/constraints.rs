//! Removes the equations that divide values among devices.

use crate::jaxpr::debug_verify;
use crate::passes::replacements::Replacements;
use crate::tensor::jaxpr::{Equation, Jaxpr};

/// Replaces the result of each equation that divides a value among devices by the value itself.
pub(super) fn without_constraints(mut jaxpr: Jaxpr) -> Jaxpr {
    let is_constraint = |equation: &Equation| equation.primitive.is_sharding_constraint();
    if !jaxpr.equations.iter().any(is_constraint) {
        return jaxpr;
    }
    let mut replacements = Replacements::none(&jaxpr);
    jaxpr.equations.retain_mut(|equation| {
        replacements.in_inputs(equation);
        let is_removed = is_constraint(equation);
        if let (true, &[input], &[output]) =
            (is_removed, &equation.inputs[..], &equation.outputs[..])
        {
            replacements.replace(output, input);
        }
        !is_removed
    });
    replacements.in_outputs(&mut jaxpr);
    debug_verify(&jaxpr, "removal of sharding constraints");
    jaxpr
}
