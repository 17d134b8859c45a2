//! Replaces results of a call that are its operands by these operands. The call would copy them.

use std::collections::HashMap;
use std::sync::Arc;

use super::replacements::Replacements;
use crate::primitives::call::Call;
use crate::tensor::jaxpr::{Jaxpr, Variable};

/// Removes the results of calls that the called function returns as it receives them.
pub(super) fn forwarded(mut jaxpr: Jaxpr) -> Jaxpr {
    let mut replacements = Replacements::none(&jaxpr);
    for equation in &mut jaxpr.equations {
        replacements.in_inputs(equation);
        let Some(Call(body)) = equation.parameters() else {
            continue;
        };
        let inputs = body.jaxpr.inputs.iter().zip(&equation.inputs);
        let inputs: HashMap<Variable, Variable> =
            inputs.map(|(&it, &operand)| (it, operand)).collect();
        let outputs = body.jaxpr.outputs.iter();
        let operands: Vec<_> = outputs.map(|output| inputs.get(output).copied()).collect();
        if operands.iter().all(Option::is_none) {
            continue;
        }
        let mut called = body.jaxpr.clone();
        let mut kept = operands.iter().map(Option::is_none);
        called.outputs.retain(|_| kept.next() == Some(true));
        equation.primitive = Arc::new(Call(body.derived(called)));
        for (&output, operand) in equation.outputs.iter().zip(&operands) {
            if let Some(operand) = *operand {
                replacements.replace(output, operand);
            }
        }
        let mut kept = operands.iter().map(Option::is_none);
        equation.outputs.retain(|_| kept.next() == Some(true));
    }
    replacements.in_outputs(&mut jaxpr);
    jaxpr
}
