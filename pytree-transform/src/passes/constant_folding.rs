//! Constant folding: computes values that do not depend on an input once, when a function is compiled.

use std::any::Any;
use std::sync::Arc;

use pytree_kernels::base::array::{Array, Operands};

use crate::primitives::create::{Full, known_scalar};
use crate::tensor::jaxpr::{Equation, Jaxpr, Variable};
use crate::tensor::{Tensor, evaluation};

/// The maximum number of elements of a folded result. Folded results are stored with the function, so they must be
/// small.
const MOST_ELEMENTS: usize = 1024;

/// An equation is folded only if each operand has at most this many elements. This limit bounds the time that folding
/// adds to compilation.
const MOST_OPERAND_ELEMENTS: usize = 1 << 16;

/// The elements of a variable that are known before the program runs.
#[derive(Clone)]
enum Known {
    /// All elements are known: the elements of this array.
    Value(Arc<Array>),
    /// All elements have the value of this array, which has no axes.
    Filled(Arc<Array>),
}

/// Replaces equations with known operands by constants. If all elements of a result are equal, the equation becomes a
/// `full`, which needs no stored memory. An equation without operands, which creates a tensor, is not replaced.
pub(crate) fn constant_folding(mut jaxpr: Jaxpr) -> Jaxpr {
    let mut known: Vec<Option<Known>> = vec![None; jaxpr.variables.len()];
    for (variable, tensor) in &jaxpr.constants {
        known[variable.index()] = tensor.array().cloned().map(Known::Value);
    }
    let mut equations = std::mem::take(&mut jaxpr.equations);
    equations.retain_mut(|equation| match fold(&jaxpr, equation, &mut known) {
        Some(Folded::Constant(variable, array)) => {
            let constant = Tensor::from_shared(Arc::clone(&array));
            jaxpr.constants.push((variable, constant));
            known[variable.index()] = Some(Known::Value(array));
            false
        }
        Some(Folded::Full(full)) => {
            equation.primitive = Arc::new(full);
            equation.inputs.clear();
            true
        }
        None => true,
    });
    jaxpr.equations = equations;
    jaxpr
}

/// The replacement of a folded equation.
enum Folded {
    Constant(Variable, Arc<Array>),
    Full(Full),
}

fn fold(jaxpr: &Jaxpr, equation: &Equation, known: &mut [Option<Known>]) -> Option<Folded> {
    let primitive: &dyn Any = &*equation.primitive;
    let [output] = equation.outputs[..] else {
        return None;
    };
    let special = equation.primitive.has_effect()
        || equation.primitive.is_sharding_constraint()
        || !equation.primitive.axis_names().is_empty();
    if special || !equation.primitive.bodies().is_empty() {
        return None;
    }
    let info = jaxpr.info(output);
    if let Some(full) = primitive.downcast_ref::<Full>() {
        let one = Full {
            shape: pytree_kernels::base::shape::Shape::new(),
            ..full.clone()
        };
        known[output.index()] = Some(Known::Filled(evaluate(&one, Operands::new())?));
        return None;
    }
    let operands: Vec<Known> = equation
        .inputs
        .iter()
        .map(|input| known[input.index()].clone())
        .collect::<Option<_>>()?;
    let filled: Option<Operands> = operands
        .iter()
        .map(|operand| match operand {
            Known::Filled(element) => Some(Arc::clone(element)),
            Known::Value(array) if array.info.rank() == 0 => Some(Arc::clone(array)),
            Known::Value(_) => None,
        })
        .collect();
    if let (Some(elements), true, true) = (
        filled,
        equation.primitive.elementwise().is_some(),
        info.rank() > 0,
    ) {
        let element = evaluate(&*equation.primitive, elements)?;
        let value = known_scalar(&Tensor::from_shared(Arc::clone(&element)))?;
        known[output.index()] = Some(Known::Filled(element));
        return Some(Folded::Full(Full {
            dtype: info.dtype,
            shape: info.shape.clone(),
            value,
        }));
    }
    if info.len() > MOST_ELEMENTS {
        return None;
    }
    let arrays: Operands = equation
        .inputs
        .iter()
        .zip(operands)
        .map(|(input, operand)| match operand {
            Known::Value(array) if array.info.len() <= MOST_OPERAND_ELEMENTS => Some(array),
            Known::Filled(element) if jaxpr.info(*input).len() <= MOST_OPERAND_ELEMENTS => {
                let value = known_scalar(&Tensor::from_shared(element))?;
                let full = Full {
                    dtype: jaxpr.info(*input).dtype,
                    shape: jaxpr.info(*input).shape.clone(),
                    value,
                };
                evaluate(&full, Operands::new())
            }
            _ => None,
        })
        .collect::<Option<_>>()?;
    if arrays.is_empty() {
        // The equation has no operands and creates a tensor. Equations that use the tensor may be folded, but the
        // tensor itself does not become a constant of the jaxpr: its equation is kept.
        known[output.index()] = evaluate(&*equation.primitive, arrays).map(Known::Value);
        return None;
    }
    Some(Folded::Constant(
        output,
        evaluate(&*equation.primitive, arrays)?,
    ))
}

fn evaluate(
    primitive: &dyn crate::tensor::primitive::Primitive,
    operands: Operands,
) -> Option<Arc<Array>> {
    evaluation::evaluate(primitive, operands)
        .into_iter()
        .next()
        .map(Arc::new)
}
