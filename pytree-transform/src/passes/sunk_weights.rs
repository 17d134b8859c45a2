//! Moves the products of quantized weights into the loops, branches and calls that use them, so that the bodies read the integers.

use std::any::Any;
use std::sync::Arc;

use pytree_kernels::base::dtype::AbstractArray;
use smallvec::smallvec;

use super::quantized_weights::{Weight, quantized_weights, weights};
use crate::primitives::body::Body;
use crate::primitives::call::Call;
use crate::primitives::control::cond::Cond;
use crate::primitives::control::scan::Scan;
use crate::primitives::control::while_loop::While;
use crate::primitives::shape::Transpose;
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
            let (operand, transpose) = untransposed(&jaxpr, &makers, equation.inputs[position]);
            let sunk = weights(&jaxpr, &makers, operand).find_map(|weight| {
                let parts = [weight.integers, weight.scales];
                let moved = Moved {
                    jaxpr: &jaxpr,
                    weight,
                    transpose,
                };
                let primitive = with_weight(&*equation.primitive, position, &moved)?;
                Some((primitive, parts))
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

/// The product of a weight, which may be transposed.
struct Moved<'j> {
    jaxpr: &'j Jaxpr,
    weight: Weight,
    transpose: Option<&'j Equation>,
}

/// Returns the operand of a transposition and its equation. Returns other variables as they are.
fn untransposed<'j>(
    jaxpr: &'j Jaxpr,
    makers: &[Option<usize>],
    variable: Variable,
) -> (Variable, Option<&'j Equation>) {
    let maker = makers[variable.index()].map(|maker| &jaxpr.equations[maker]);
    let transpose = maker.filter(|maker| maker.parameters::<Transpose>().is_some());
    transpose.map_or((variable, None), |maker| (maker.inputs[0], transpose))
}

/// Returns the primitive whose bodies compute the weight at a position of the operands from its two parts. Returns `None` if a body
/// would compute it as a whole.
fn with_weight(
    primitive: &dyn Primitive,
    position: usize,
    moved: &Moved<'_>,
) -> Option<Arc<dyn Primitive>> {
    let sunk = |body: &Arc<Body>, input: usize| {
        let changed = moved.in_body(body.jaxpr.clone(), input)?;
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

impl Moved<'_> {
    /// Replaces an input of a body by the parts of the weight, and computes the input from them. Returns `None` if the body then computes
    /// the weight.
    fn in_body(&self, mut body: Jaxpr, input: usize) -> Option<Jaxpr> {
        let weight = &self.weight;
        let result = body.inputs[input];
        let line = body.equations.first()?.line;
        let [integers, scales] = [weight.integers, weight.scales]
            .map(|part| body.unused_input(self.jaxpr.info(part).clone()));
        let wide = AbstractArray::new(body.info(result).dtype, weight.broadcast.shape.clone());
        let mut new = || body.unused_input(wide.clone());
        let (converted, scaled) = (new(), new());
        let product = self.transpose.map_or(result, |_| new());
        let mut equations = Vec::new();
        let mut add = |primitive, inputs: &[Variable], output| {
            equations.push(Equation {
                primitive,
                inputs: inputs.into(),
                outputs: smallvec![output],
                line,
            });
        };
        add(Arc::new(weight.convert), &[integers], converted);
        add(Arc::new(weight.broadcast.clone()), &[scales], scaled);
        add(Arc::clone(&weight.product), &[converted, scaled], product);
        if let Some(transpose) = self.transpose {
            add(Arc::clone(&transpose.primitive), &[product], result);
        }
        body.inputs.splice(input..=input, [integers, scales]);
        body.equations.splice(0..0, equations);
        let optimized = quantized_weights(sunk_weights(body.clone())).without_dead_code();
        let is_made = |equation: &Equation| equation.outputs.contains(&product);
        let is_used = optimized.outputs.contains(&result);
        (!is_used && !optimized.equations.iter().any(is_made)).then_some(body)
    }
}
