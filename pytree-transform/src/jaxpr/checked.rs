//! Runs a jaxpr and checks each result for NaN or infinities.

use std::sync::Arc;

use pytree_base::bug::expect_next;
use pytree_kernels::base::array::{Array, Operands};

use crate::base::error::or_panic;
use crate::tensor::checks::evaluate;
use crate::tensor::jaxpr::{Equation, Jaxpr, constant_array};
use crate::tensor::primitive::Outputs;

/// Runs a jaxpr as it was recorded, equation by equation, and checks each result.
///
/// # Panics
/// Panics if a result contains a NaN or an infinity that the active checks forbid.
pub(crate) fn run_checked(jaxpr: &Jaxpr, inputs: Vec<Arc<Array>>) -> Vec<Arc<Array>> {
    let mut shown = jaxpr.equations();
    let each = |equation: &Equation, operands: &[&Arc<Array>]| {
        let shown = expect_next(&mut shown, "a display of each equation");
        let operands: Operands = operands
            .iter()
            .map(|&operand| Arc::clone(operand))
            .collect();
        let results = evaluate(&*equation.primitive, operands, equation.line, Some(&shown))?;
        Ok(results.into_iter().map(Arc::new).collect::<Outputs<_>>())
    };
    let constant = |tensor: &_| Arc::clone(constant_array(tensor));
    or_panic(jaxpr.run(inputs.into_iter(), constant, each))
}
