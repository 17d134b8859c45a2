//! Multiplies with 8-bit integers and their scales as they are stored, and reads their rows.
//!
//! A quantized weight is used as `integers.convert(F32) * scales`. If this is the right operand of a product, the product reads the
//! integers. If slices of it are taken, as the rows of an embedding, the slices of the integers are taken and multiplied by those of the
//! scales. So the weight is never widened as a whole.

use std::sync::Arc;

use pytree_kernels::base::dtype::DType;
use pytree_kernels::primitives::dot::DotGeneral;
use pytree_kernels::primitives::elementwise::{Binary, Elementwise};
use smallvec::smallvec;

use super::parameters;
use super::quantized_dot::QuantizedDot;
use crate::base::error::or_panic;
use crate::primitives::convert::Convert;
use crate::primitives::gather::Take;
use crate::primitives::shape::Broadcast;
use crate::tensor::jaxpr::{Equation, Jaxpr, Variable};
use crate::tensor::primitive::Primitive;

/// Replaces products with quantized weights and reads of their slices. Runs before constants are folded, which would widen weights that
/// a function captures.
pub(super) fn quantized_weights(mut jaxpr: Jaxpr) -> Jaxpr {
    let makers = jaxpr.makers();
    let uses = jaxpr.equations.iter().map(|equation| {
        quantized_product(&jaxpr, &makers, equation).or_else(|| slices(&jaxpr, &makers, equation))
    });
    let uses: Vec<Option<Use>> = uses.collect();
    if uses.iter().all(Option::is_none) {
        return jaxpr;
    }
    let equations = std::mem::take(&mut jaxpr.equations);
    let mut done = Vec::with_capacity(equations.len());
    for (found, equation) in uses.into_iter().zip(equations) {
        match found {
            None => done.push(equation),
            Some(Use::Product(primitive, weight)) => done.push(Equation {
                primitive: Arc::new(primitive),
                inputs: smallvec![equation.inputs[0], weight.integers, weight.scales],
                ..equation
            }),
            Some(Use::Slices(weight)) => take_slices(&mut jaxpr, &weight, equation, &mut done),
        }
    }
    jaxpr.equations = done;
    jaxpr.without_dead_code()
}

/// A use of a quantized weight, which becomes a use of its integers.
enum Use {
    Product(QuantizedDot, Weight),
    Slices(Weight),
}

/// The product of integers that are converted and of scales that are broadcast.
struct Weight {
    integers: Variable,
    convert: Convert,
    scales: Variable,
    broadcast: Broadcast,
    product: Arc<dyn Primitive>,
}

/// Returns the use of an equation that is a product with a quantized weight.
fn quantized_product(jaxpr: &Jaxpr, makers: &[Option<usize>], equation: &Equation) -> Option<Use> {
    let dot: &DotGeneral = parameters(equation)?;
    let [left, right] = equation.inputs[..] else {
        return None;
    };
    let info = |variable| jaxpr.info(variable);
    weights(jaxpr, makers, right).find_map(|weight| {
        let (integers, scales) = (info(weight.integers), info(weight.scales));
        let primitive = QuantizedDot::of(dot, info(left), integers, &weight.broadcast, scales)?;
        Some(Use::Product(primitive, weight))
    })
}

/// Returns the use of an equation that takes slices of a quantized weight.
fn slices(jaxpr: &Jaxpr, makers: &[Option<usize>], equation: &Equation) -> Option<Use> {
    let take: &Take = parameters(equation)?;
    let mut weights = weights(jaxpr, makers, equation.inputs[0]);
    let weight = weights.find(|weight| {
        let (integers, scales) = (jaxpr.info(weight.integers), jaxpr.info(weight.scales));
        let Broadcast { axes, shape } = &weight.broadcast;
        // A single scale of the axis is taken for every index, because indices out of range are clamped.
        take.batch_axes == 0
            && integers.dtype == DType::I8
            && *shape == integers.shape
            && axes.iter().copied().eq(0..shape.len())
            && scales.rank() == shape.len()
    })?;
    Some(Use::Slices(weight))
}

/// Writes the equations of the product of slices of the integers and of the scales, in place of the slices of the product.
fn take_slices(jaxpr: &mut Jaxpr, weight: &Weight, equation: Equation, done: &mut Vec<Equation>) {
    let Equation {
        primitive: take,
        inputs,
        outputs,
        line,
    } = equation;
    let (indices, result) = (inputs[1], outputs[0]);
    let info = jaxpr.info(result).clone();
    let mut add = |primitive: Arc<dyn Primitive>, inputs, output| {
        done.push(Equation {
            primitive,
            inputs,
            outputs: smallvec![output],
            line,
        });
        output
    };
    let mut slices = |operand| {
        let infos = [jaxpr.info(operand), jaxpr.info(indices)];
        let info = or_panic(take.abstract_evaluation(&infos)).remove(0);
        let output = jaxpr.unused_input(info);
        add(Arc::clone(&take), smallvec![operand, indices], output)
    };
    let (integers, scales) = (slices(weight.integers), slices(weight.scales));
    let broadcast = Broadcast {
        shape: info.shape.clone(),
        axes: (0..info.rank()).collect(),
    };
    let mut wide = || jaxpr.unused_input(info.clone());
    let converted = add(Arc::new(weight.convert), smallvec![integers], wide());
    let scaled = add(Arc::new(broadcast), smallvec![scales], wide());
    add(
        Arc::clone(&weight.product),
        smallvec![converted, scaled],
        result,
    );
}

/// Returns the ways to read a variable as a quantized weight.
fn weights<'a>(
    jaxpr: &'a Jaxpr,
    makers: &'a [Option<usize>],
    variable: Variable,
) -> impl Iterator<Item = Weight> + 'a {
    let maker = |variable: Variable| Some(&jaxpr.equations[makers[variable.index()]?]);
    let product = maker(variable).filter(|product| {
        product.primitive.elementwise() == Some(Elementwise::Binary(Binary::Mul))
    });
    let orders = product.map(|product| {
        let [first, second] = [product.inputs[0], product.inputs[1]];
        [(product, first, second), (product, second, first)]
    });
    orders
        .into_iter()
        .flatten()
        .filter_map(move |(product, converted, scaled)| {
            let (converted, scaled) = (maker(converted)?, maker(scaled)?);
            let convert: &Convert = parameters(converted)?;
            let broadcast: &Broadcast = parameters(scaled)?;
            Some(Weight {
                integers: converted.inputs[0],
                convert: *convert,
                scales: scaled.inputs[0],
                broadcast: broadcast.clone(),
                product: Arc::clone(&product.primitive),
            })
        })
}
