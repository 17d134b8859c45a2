//! Multiplies with 8-bit integers and their scales as they are stored.
//!
//! A quantized weight is used as `integers.convert(F32) * scales`. If this is the right operand of a product, the product reads the
//! integers, and the weight is never widened as a whole.

use std::any::Any;
use std::sync::Arc;

use pytree_kernels::primitives::dot::DotGeneral;
use pytree_kernels::primitives::elementwise::{Binary, Elementwise};
use smallvec::smallvec;

use super::quantized_dot::QuantizedDot;
use crate::primitives::convert::Convert;
use crate::primitives::shape::Broadcast;
use crate::tensor::jaxpr::{Equation, Jaxpr, Variable};

/// Replaces products with quantized weights. Runs before constants are folded, which would widen weights that a function captures.
pub(super) fn quantized_weights(mut jaxpr: Jaxpr) -> Jaxpr {
    let makers = jaxpr.makers();
    let mut found = Vec::new();
    for (position, equation) in jaxpr.equations.iter().enumerate() {
        let Some((primitive, integers, scales)) = quantized(&jaxpr, &makers, equation) else {
            continue;
        };
        found.push((
            position,
            Equation {
                primitive: Arc::new(primitive),
                inputs: smallvec![equation.inputs[0], integers, scales],
                outputs: equation.outputs.clone(),
                line: equation.line,
            },
        ));
    }
    if found.is_empty() {
        return jaxpr;
    }
    for (position, equation) in found {
        jaxpr.equations[position] = equation;
    }
    jaxpr.without_dead_code()
}

/// Returns the product that replaces an equation, and its integers and scales.
fn quantized(
    jaxpr: &Jaxpr,
    makers: &[Option<usize>],
    equation: &Equation,
) -> Option<(QuantizedDot, Variable, Variable)> {
    let dot: &DotGeneral = parameters(equation)?;
    let maker = |variable: Variable| Some(&jaxpr.equations[makers[variable.index()]?]);
    let [left, weight] = equation.inputs[..] else {
        return None;
    };
    let product = maker(weight)?;
    if product.primitive.elementwise() != Some(Elementwise::Binary(Binary::Mul)) {
        return None;
    }
    let [first, second] = product.inputs[..] else {
        return None;
    };
    [(first, second), (second, first)]
        .into_iter()
        .find_map(|(converted, scaled)| {
            let (converted, scaled) = (maker(converted)?, maker(scaled)?);
            parameters::<Convert>(converted)?;
            let broadcast: &Broadcast = parameters(scaled)?;
            let (integers, scales) = (converted.inputs[0], scaled.inputs[0]);
            let info = |variable| jaxpr.info(variable);
            let primitive =
                QuantizedDot::of(dot, info(left), info(integers), broadcast, info(scales))?;
            Some((primitive, integers, scales))
        })
}

fn parameters<P: 'static>(equation: &Equation) -> Option<&P> {
    let primitive: &dyn Any = &*equation.primitive;
    primitive.downcast_ref()
}
