//! Turns a sum of padded parts, which together cover an axis, into a concatenation.
//!
//! The derivative of a slice pads its cotangent with zeros. So if a function divides an array into slices, its derivative sums as
//! many whole arrays as there are slices.

use std::sync::Arc;

use pytree_kernels::base::dtype::AbstractArray;
use pytree_kernels::loops::elementwise::{Binary, Elementwise};
use pytree_kernels::loops::pad::Pad;
use smallvec::{SmallVec, smallvec};

use crate::primitives::create::{Full, known_scalar};
use crate::primitives::slice::Concatenate;
use crate::tensor::jaxpr::{Equation, Jaxpr, Variable};
use crate::tensor::primitive::Primitive;

/// An array that is zero outside of some parts.
#[derive(Clone)]
struct Parts {
    /// The axis along which the parts follow each other. On all other axes, each part has the length of the array.
    axis: usize,
    /// The parts by their first positions on the axis, each with the position after its end.
    parts: SmallVec<[(usize, usize, Variable); 3]>,
}

/// Replaces each sum of parts that do not overlap and leave no gap.
///
/// The sum turns a negative zero into a positive zero, because each element is added to zeros. So zeros are also added to the
/// concatenation.
pub(super) fn joined_parts(mut jaxpr: Jaxpr) -> Jaxpr {
    let is_pad = |equation: &Equation| equation.parameters::<Pad>().is_some();
    if !jaxpr.equations.iter().any(is_pad) {
        return jaxpr;
    }
    let zeros: Vec<bool> = jaxpr
        .constants_by_variable()
        .into_iter()
        .map(|constant| constant.and_then(known_scalar).map(f64::to_bits) == Some(0))
        .collect();
    let mut known: Vec<Option<Parts>> = vec![None; jaxpr.variables.len()];
    let equations = std::mem::take(&mut jaxpr.equations);
    let mut done = Vec::with_capacity(equations.len());
    for equation in equations {
        let found = match equation.inputs[..] {
            [operand, value] if is_pad(&equation) && zeros[value.index()] => {
                padded(&equation, operand, jaxpr.info(operand))
            }
            [left, right] if is_sum(&equation) => {
                joined(known[left.index()].as_ref(), known[right.index()].as_ref())
            }
            _ => None,
        };
        let Some(found) = found else {
            done.push(equation);
            continue;
        };
        let output = equation.outputs[0];
        if found.covers(jaxpr.info(output)) {
            concatenate(&mut jaxpr, &found, &equation, &mut done);
        } else {
            known[output.index()] = Some(found);
            done.push(equation);
        }
    }
    jaxpr.equations = done;
    jaxpr
}

fn is_sum(equation: &Equation) -> bool {
    equation.primitive.elementwise() == Some(Elementwise::Binary(Binary::Add))
}

/// Returns the only part of an operand that is padded with zeros along one axis.
fn padded(equation: &Equation, operand: Variable, info: &AbstractArray) -> Option<Parts> {
    let Pad {
        low,
        high,
        interior,
    } = equation.parameters()?;
    if interior.iter().any(|&between| between != 0) {
        return None;
    }
    let mut axes = (0..low.len()).filter(|&axis| (low[axis], high[axis]) != (0, 0));
    let axis = axes.next().filter(|_| axes.next().is_none())?;
    let begin = usize::try_from(low[axis]).ok()?;
    usize::try_from(high[axis]).ok()?;
    let parts = smallvec![(begin, begin + info.shape[axis], operand)];
    Some(Parts { axis, parts })
}

/// Returns the parts of the sum of two arrays, if no parts overlap.
fn joined(left: Option<&Parts>, right: Option<&Parts>) -> Option<Parts> {
    let (left, right) = (left?, right?);
    let mut parts: SmallVec<[_; 3]> = left.parts.iter().chain(&right.parts).copied().collect();
    parts.sort_unstable_by_key(|&(begin, end, _)| (begin, end));
    let is_apart = parts.windows(2).all(|pair| pair[0].1 <= pair[1].0);
    (left.axis == right.axis && is_apart).then_some(Parts {
        axis: left.axis,
        parts,
    })
}

impl Parts {
    /// Returns whether several parts leave no gap in an array.
    fn covers(&self, whole: &AbstractArray) -> bool {
        let lengths = self.parts.iter().map(|(begin, end, _)| end - begin);
        self.parts.len() > 1 && lengths.sum::<usize>() == whole.shape[self.axis]
    }
}

/// Writes the concatenation of the parts, in place of the sum.
fn concatenate(jaxpr: &mut Jaxpr, found: &Parts, sum: &Equation, done: &mut Vec<Equation>) {
    let info = jaxpr.info(sum.outputs[0]).clone();
    let operands: SmallVec<[Variable; 4]> = found.parts.iter().map(|&(_, _, part)| part).collect();
    let mut add = |primitive: Arc<dyn Primitive>, inputs, output| {
        done.push(Equation {
            primitive,
            inputs,
            outputs: smallvec![output],
            line: sum.line,
        });
    };
    let concatenation = Arc::new(Concatenate { axis: found.axis });
    if !info.dtype.is_float() {
        return add(concatenation, operands, sum.outputs[0]);
    }
    let zeros = Full {
        dtype: info.dtype,
        shape: info.shape.clone(),
        value: 0.0,
    };
    let (whole, zero) = (jaxpr.unused_input(info.clone()), jaxpr.unused_input(info));
    add(concatenation, operands, whole);
    add(Arc::new(zeros), SmallVec::new(), zero);
    add(
        Arc::clone(&sum.primitive),
        smallvec![whole, zero],
        sum.outputs[0],
    );
}
