//! Joins small sums over the processes of a mesh, so that the processes exchange one message and not many.
//!
//! The time of a small exchange is that of a message, not of its bytes. A training step sums the gradients of many biases and
//! scales. This pass is not one of those for all executors: XLA joins the sums of devices itself.

use std::sync::Arc;

use pytree_kernels::base::dtype::AbstractArray;
use smallvec::{SmallVec, smallvec};

use crate::jaxpr::debug_verify;
use crate::primitives::collectives::PSum;
use crate::primitives::shape::Reshape;
use crate::primitives::slice::{Concatenate, Slice};
use crate::tensor::jaxpr::{Equation, Jaxpr, Variable};
use crate::tensor::primitive::Primitive;

/// The maximum number of bytes of an operand that is joined with others. A larger operand takes longer to copy than a
/// message takes.
const LARGEST: usize = 8 << 10;

/// Joins sums over the same axes whose operands are small and have the same dtype. Each element is still added in the same
/// order, so the results have the same bits. The result depends only on the equations, so all processes that run the same
/// program communicate in the same order.
///
/// The sums move to the place of the last of them, and the equations that use their results follow. No equation moves across
/// an equation with an effect.
pub(crate) fn joined_sums(mut jaxpr: Jaxpr) -> Jaxpr {
    let equations = std::mem::take(&mut jaxpr.equations);
    let mut joining = Joining {
        is_later: vec![false; jaxpr.variables.len()],
        sums: Vec::new(),
        later: Vec::new(),
    };
    let mut done = Vec::with_capacity(equations.len());
    for equation in equations {
        if equation.primitive.has_effect() {
            joining.end(&mut jaxpr, &mut done);
        }
        let mut inputs = equation.inputs.iter();
        if inputs.any(|input| joining.is_later[input.index()]) {
            joining.delay(&equation);
            joining.later.push(equation);
        } else if joining.takes(&jaxpr, &equation) {
            joining.delay(&equation);
            joining.sums.push(equation);
        } else {
            done.push(equation);
        }
    }
    joining.end(&mut jaxpr, &mut done);
    jaxpr.equations = done;
    debug_verify(&jaxpr, "joined sums");
    jaxpr
}

/// The sums that are joined next.
struct Joining {
    /// For each variable, whether a sum or a later equation computes it.
    is_later: Vec<bool>,
    sums: Vec<Equation>,
    /// The equations that depend on the sums.
    later: Vec<Equation>,
}

impl Joining {
    fn delay(&mut self, equation: &Equation) {
        for output in &equation.outputs {
            self.is_later[output.index()] = true;
        }
    }

    /// Returns whether an equation is a small sum over the same axes as the other sums, of the same dtype.
    fn takes(&self, jaxpr: &Jaxpr, equation: &Equation) -> bool {
        let Some(&operand) = equation.inputs.first() else {
            return false;
        };
        let info = jaxpr.info(operand);
        let is_small = info.len() * info.dtype.bytes() <= LARGEST;
        let is_same = |first: &Equation| {
            *first.primitive == *equation.primitive
                && jaxpr.info(first.inputs[0]).dtype == info.dtype
        };
        equation.parameters::<PSum>().is_some() && is_small && self.sums.first().is_none_or(is_same)
    }

    /// Writes the joined sum and the equations that follow it.
    fn end(&mut self, jaxpr: &mut Jaxpr, done: &mut Vec<Equation>) {
        let sums = std::mem::take(&mut self.sums);
        if sums.len() > 1 {
            join(jaxpr, &sums, done);
        } else {
            done.extend(sums);
        }
        done.append(&mut self.later);
        self.is_later.fill(false);
    }
}

/// Writes a sum over the concatenated operands of several sums, of which each result is a part.
fn join(jaxpr: &mut Jaxpr, sums: &[Equation], done: &mut Vec<Equation>) {
    let Some(first) = sums.first() else { return };
    let dtype = jaxpr.info(first.inputs[0]).dtype;
    let mut add = |primitive: Arc<dyn Primitive>, inputs: &[Variable], output: Variable| {
        done.push(Equation {
            primitive,
            inputs: inputs.into(),
            outputs: smallvec![output],
            line: first.line,
        });
    };
    let mut operands: SmallVec<[Variable; 4]> = SmallVec::new();
    let mut total = 0;
    for sum in sums {
        let info = jaxpr.info(sum.inputs[0]).clone();
        total += info.len();
        let flat = AbstractArray::new(dtype, [info.len()]);
        if info == flat {
            operands.push(sum.inputs[0]);
            continue;
        }
        let reshape = Reshape {
            shape: flat.shape.clone(),
        };
        let operand = jaxpr.unused_input(flat);
        add(Arc::new(reshape), &sum.inputs, operand);
        operands.push(operand);
    }
    let all = AbstractArray::new(dtype, [total]);
    let (joined, summed) = (jaxpr.unused_input(all.clone()), jaxpr.unused_input(all));
    add(Arc::new(Concatenate { axis: 0 }), &operands, joined);
    add(Arc::clone(&first.primitive), &[joined], summed);
    let mut start = 0;
    for sum in sums {
        let info = jaxpr.info(sum.outputs[0]).clone();
        let flat = AbstractArray::new(dtype, [info.len()]);
        let limit = start + info.len();
        let slice = Slice {
            start: smallvec![start],
            limit: smallvec![limit],
            stride: smallvec![1],
        };
        start = limit;
        if info == flat {
            add(Arc::new(slice), &[summed], sum.outputs[0]);
            continue;
        }
        let part = jaxpr.unused_input(flat);
        add(Arc::new(slice), &[summed], part);
        let reshape = Reshape {
            shape: info.shape.clone(),
        };
        add(Arc::new(reshape), &[part], sum.outputs[0]);
    }
}
