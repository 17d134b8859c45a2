//! Multiplies with 8-bit integers and their scales as they are stored, and reads their rows.
//!
//! A quantized weight is used as `integers.convert(F32) * scales`. If this is the right operand of a product, the product reads the
//! integers, transposed or not. If slices of it are taken, as the rows of an embedding, or if an axis is split, as heads into groups,
//! the integers and the scales are read so, and multiplied afterwards. In these forms the weight is not widened as a whole.

use std::sync::Arc;

use pytree_kernels::base::dtype::DType;
use pytree_kernels::base::shape::Shape;
use pytree_kernels::loops::dot::DotGeneral;
use pytree_kernels::loops::elementwise::{Binary, Elementwise};
use smallvec::smallvec;

use super::quantized_dot::QuantizedDot;
use super::simplify::untranspose;
use crate::base::error::or_panic;
use crate::primitives::convert::Convert;
use crate::primitives::create::Broadcast;
use crate::primitives::gather::Take;
use crate::primitives::shape::{Reshape, Transpose};
use crate::tensor::jaxpr::{Equation, Jaxpr, Variable};
use crate::tensor::primitive::Primitive;

/// Replaces products with quantized weights and reads of their slices. Runs before constants are folded, which would widen weights that
/// a function captures.
pub(super) fn quantized_weights(jaxpr: Jaxpr) -> Jaxpr {
    let jaxpr = replace(jaxpr, |jaxpr, makers, equation| {
        let of_slices = slices(jaxpr, makers, equation);
        of_slices.or_else(|| split(jaxpr, makers, equation))
    });
    replace(jaxpr, quantized_product)
}

/// Replaces the uses of quantized weights that a function finds.
fn replace(
    mut jaxpr: Jaxpr,
    find: impl Fn(&Jaxpr, &[Option<usize>], &Equation) -> Option<Use>,
) -> Jaxpr {
    let makers = jaxpr.makers();
    let equations = jaxpr.equations.iter();
    let uses: Vec<Option<Use>> = equations
        .map(|equation| find(&jaxpr, &makers, equation))
        .collect();
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
            Some(Use::Parts(parts, weight)) => {
                multiply_parts(&mut jaxpr, &weight, parts, equation, &mut done);
            }
        }
    }
    jaxpr.equations = done;
    jaxpr.without_dead_code()
}

/// A use of a quantized weight, which becomes a use of its integers.
enum Use {
    Product(QuantizedDot, Weight),
    /// The primitives that read the integers and the scales.
    Parts([Arc<dyn Primitive>; 2], Weight),
}

/// The product of integers that are converted and of scales that are broadcast.
pub(super) struct Weight {
    pub(super) integers: Variable,
    pub(super) convert: Convert,
    pub(super) scales: Variable,
    pub(super) broadcast: Broadcast,
    pub(super) product: Arc<dyn Primitive>,
}

/// Returns the use of an equation that is a product with a quantized weight.
fn quantized_product(jaxpr: &Jaxpr, makers: &[Option<usize>], equation: &Equation) -> Option<Use> {
    let dot: &DotGeneral = equation.parameters()?;
    let [left, right] = equation.inputs[..] else {
        return None;
    };
    let info = |variable| jaxpr.info(variable);
    let maker = makers[right.index()].map(|maker| &jaxpr.equations[maker]);
    let transposed = maker.and_then(|maker| Some((maker, maker.parameters::<Transpose>()?)));
    let (dot, right) = match transposed {
        Some((maker, transpose)) => {
            let (source, mut turned) = (maker.inputs[0], dot.clone());
            let axes = [&mut turned.contract.1, &mut turned.batch.1];
            untranspose(axes, &transpose.permutation)?;
            let is_equal = turned.summation(info(left), info(source))
                == dot.summation(info(left), info(right));
            (&is_equal.then_some(turned)?, source)
        }
        None => (dot, right),
    };
    weights(jaxpr, makers, right).find_map(|weight| {
        let (integers, scales) = (info(weight.integers), info(weight.scales));
        let primitive = QuantizedDot::of(dot, info(left), integers, &weight.broadcast, scales)?;
        Some(Use::Product(primitive, weight))
    })
}

/// Returns the use of an equation that takes slices of a quantized weight.
fn slices(jaxpr: &Jaxpr, makers: &[Option<usize>], equation: &Equation) -> Option<Use> {
    let take: &Take = equation.parameters()?;
    // A single scale of the axis is taken for every index, because indices out of range are clamped.
    let mut weights = weights(jaxpr, makers, equation.inputs[0]);
    let weight = weights.find(|weight| take.batch_axes == 0 && weight.has_all_axes(jaxpr))?;
    let take = || Arc::clone(&equation.primitive);
    Some(Use::Parts([take(), take()], weight))
}

/// Returns the use of an equation that splits axes of a quantized weight.
fn split(jaxpr: &Jaxpr, makers: &[Option<usize>], equation: &Equation) -> Option<Use> {
    let reshape: &Reshape = equation.parameters()?;
    let mut weights = weights(jaxpr, makers, equation.inputs[0]);
    let weight = weights.find(|weight| weight.has_all_axes(jaxpr))?;
    let [integers, scales] = [weight.integers, weight.scales].map(|part| &jaxpr.info(part).shape);
    let mut of_scales = Shape::new();
    let mut new = reshape.shape.iter().copied();
    for (&length, &scale) in integers.iter().zip(scales) {
        let mut covered = 1;
        while covered < length {
            let part = new.next()?;
            covered *= part;
            of_scales.push(if scale == 1 { 1 } else { part });
        }
        if covered != length {
            return None;
        }
        if length == 1 {
            of_scales.push(new.next().filter(|&part| part == 1)?);
        }
    }
    let primitive = |shape| -> Arc<dyn Primitive> { Arc::new(Reshape { shape }) };
    let parts = [primitive(reshape.shape.clone()), primitive(of_scales)];
    new.next().is_none().then(|| Use::Parts(parts, weight))
}

/// Writes the equations of the product of parts of the integers and of the scales, in place of the parts of the product.
fn multiply_parts(
    jaxpr: &mut Jaxpr,
    weight: &Weight,
    parts: [Arc<dyn Primitive>; 2],
    equation: Equation,
    done: &mut Vec<Equation>,
) {
    let Equation {
        inputs,
        outputs,
        line,
        ..
    } = equation;
    let result = outputs[0];
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
    let mut of = |part: Arc<dyn Primitive>, operand| {
        let mut inputs = inputs.clone();
        inputs[0] = operand;
        let infos: Vec<_> = inputs.iter().map(|&input| jaxpr.info(input)).collect();
        let info = or_panic(part.abstract_evaluation(&infos)).remove(0);
        let output = jaxpr.unused_input(info);
        add(part, inputs, output)
    };
    let [of_integers, of_scales] = parts;
    let (integers, scales) = (
        of(of_integers, weight.integers),
        of(of_scales, weight.scales),
    );
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

impl Weight {
    /// Returns whether these are 8-bit integers, and the scales have all their axes.
    fn has_all_axes(&self, jaxpr: &Jaxpr) -> bool {
        let (integers, scales) = (jaxpr.info(self.integers), jaxpr.info(self.scales));
        let Broadcast { axes, shape } = &self.broadcast;
        integers.dtype == DType::I8
            && *shape == integers.shape
            && axes.iter().copied().eq(0..shape.len())
            && scales.rank() == shape.len()
    }
}

/// Returns the ways to read a variable as a quantized weight.
pub(super) fn weights<'a>(
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
            let convert: &Convert = converted.parameters()?;
            let broadcast: &Broadcast = scaled.parameters()?;
            Some(Weight {
                integers: converted.inputs[0],
                convert: *convert,
                scales: scaled.inputs[0],
                broadcast: broadcast.clone(),
                product: Arc::clone(&product.primitive),
            })
        })
}
