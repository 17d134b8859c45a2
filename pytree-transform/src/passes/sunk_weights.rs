//! Moves the products of quantized weights into the loops, branches and calls that use them, so that the bodies read the integers.

use std::any::Any;
use std::sync::Arc;

use smallvec::{SmallVec, smallvec};

use super::quantized_weights::{Weight, quantized_weights, weights};
use crate::primitives::body::Body;
use crate::primitives::call::Call;
use crate::primitives::control::cond::Cond;
use crate::primitives::control::scan::Scan;
use crate::primitives::control::while_loop::While;
use crate::tensor::jaxpr::{Equation, Jaxpr, Variable};
use crate::tensor::primitive::Primitive;

/// Replaces each operand that is a quantized weight by its integers and scales, if the bodies then compute no product of them.
pub(super) fn sunk_weights(mut jaxpr: Jaxpr) -> Jaxpr {
    let makers = jaxpr.makers();
    let mut is_changed = false;
    for place in 0..jaxpr.equations.len() {
        // Each weight is one more operand, so positions are searched from the last to the first.
        let mut position = jaxpr.equations[place].inputs.len();
        while let Some(before) = position.checked_sub(1) {
            position = before;
            let equation = &jaxpr.equations[place];
            if equation.primitive.bodies().is_empty() {
                break;
            }
            let sunk = weights(&jaxpr, &makers, equation.inputs[position]).find_map(|weight| {
                let primitive = with_weight(&jaxpr, &*equation.primitive, position, &weight)?;
                Some((primitive, [weight.integers, weight.scales]))
            });
            let Some((primitive, parts)) = sunk else {
                continue;
            };
            is_changed = true;
            let equation = &mut jaxpr.equations[place];
            equation.primitive = primitive;
            equation.inputs.remove(position);
            equation.inputs.insert_many(position, parts);
        }
    }
    if is_changed {
        jaxpr.without_dead_code()
    } else {
        jaxpr
    }
}

/// Returns the primitive whose bodies compute the weight at a position of the operands from its two parts. Returns `None` if a body
/// would compute it as a whole.
fn with_weight(
    jaxpr: &Jaxpr,
    primitive: &dyn Primitive,
    position: usize,
    weight: &Weight,
) -> Option<Arc<dyn Primitive>> {
    let sunk = |body: &Arc<Body>, input: usize| {
        let changed = with_parts(jaxpr, body.jaxpr.clone(), input, weight)?;
        Some(body.derived(changed))
    };
    let any: &dyn Any = primitive;
    if let Some(Call(body)) = any.downcast_ref() {
        return Some(Arc::new(Call(sunk(body, position)?)));
    }
    if let Some(cond) = any.downcast_ref::<Cond>() {
        let input = position.checked_sub(1)?;
        let branches = cond.branches.iter().map(|branch| sunk(branch, input));
        return Some(Arc::new(Cond::new(branches.collect::<Option<_>>()?)));
    }
    if let Some(scan) = any.downcast_ref::<Scan>() {
        let constants = scan.constants + 1;
        let body = (position < scan.constants).then(|| sunk(&scan.body, position))??;
        return Some(Arc::new(Scan {
            body,
            constants,
            ..*scan
        }));
    }
    let found = any.downcast_ref::<While>()?;
    let input = position.checked_sub(found.condition_constants)?;
    let constants = found.body_constants;
    let body = (input < constants).then(|| sunk(&found.body, input))??;
    Some(Arc::new(While::new(
        (Arc::clone(&found.condition), found.condition_constants),
        (body, constants + 1),
    )))
}

/// Replaces an input of a body by the parts of a weight, and computes the input from them.
fn with_parts(outer: &Jaxpr, mut body: Jaxpr, input: usize, weight: &Weight) -> Option<Jaxpr> {
    let result = body.inputs[input];
    let line = body.equations.first()?.line;
    let [integers, scales] =
        [weight.integers, weight.scales].map(|part| body.unused_input(outer.info(part).clone()));
    let wide = body.info(result).clone();
    let [converted, scaled] = [wide.clone(), wide].map(|info| body.unused_input(info));
    let equation = |primitive, inputs: SmallVec<[Variable; 4]>, output| Equation {
        primitive,
        inputs,
        outputs: smallvec![output],
        line,
    };
    let product = [
        equation(Arc::new(weight.convert), smallvec![integers], converted),
        equation(
            Arc::new(weight.broadcast.clone()),
            smallvec![scales],
            scaled,
        ),
        equation(
            Arc::clone(&weight.product),
            smallvec![converted, scaled],
            result,
        ),
    ];
    body.inputs.splice(input..=input, [integers, scales]);
    body.equations.splice(0..0, product);
    let optimized = quantized_weights(sunk_weights(body.clone()));
    let is_made = optimized
        .equations
        .iter()
        .any(|equation| equation.outputs.contains(&result));
    (!is_made && !optimized.outputs.contains(&result)).then_some(body)
}
