//! Lays out the constants of a loop once, before the loop.
//!
//! A product reads neighbouring rows of its right operand. A product with the transpose of a weight, as in the derivative of a layer,
//! transposes the weight in memory first. If the weight is a constant of a loop, it is transposed before the loop instead.

use std::sync::Arc;

use pytree_kernels::base::dtype::AbstractArray;
use pytree_kernels::base::shape::{AxisList, Shape};
use pytree_kernels::loops::dot::DotGeneral;
use smallvec::{SmallVec, smallvec};

use super::pipeline::optimize;
use crate::primitives::control::scan::Scan;
use crate::primitives::dot::product_of;
use crate::primitives::shape::Transpose;
use crate::tensor::jaxpr::{Equation, Jaxpr, Variable};

/// A constant of a loop, given by its position, in another order of axes.
struct LaidOut {
    constant: usize,
    transpose: Transpose,
    info: AbstractArray,
    /// The variable in the body of the loop.
    variable: Variable,
}

/// Adds a transposed constant to each scan whose body has products that would transpose it in each iteration.
pub(super) fn laid_out_loop_constants(mut jaxpr: Jaxpr) -> Jaxpr {
    let equations = std::mem::take(&mut jaxpr.equations);
    let mut done = Vec::with_capacity(equations.len());
    for mut equation in equations {
        if let Some((scan, added)) = equation.parameters().and_then(laid_out) {
            let operands: SmallVec<[Variable; 4]> = added
                .into_iter()
                .map(|laid_out| {
                    let output = jaxpr.unused_input(laid_out.info);
                    done.push(Equation {
                        primitive: Arc::new(laid_out.transpose),
                        inputs: smallvec![equation.inputs[laid_out.constant]],
                        outputs: smallvec![output],
                        line: equation.line,
                    });
                    output
                })
                .collect();
            let end = scan.constants - operands.len();
            equation.inputs.insert_many(end, operands);
            equation.primitive = Arc::new(scan);
        }
        done.push(equation);
    }
    jaxpr.equations = done;
    jaxpr
}

/// Returns the scan with more constants, after the others, or `None` if no product would transpose a constant.
fn laid_out(scan: &Scan) -> Option<(Scan, Vec<LaidOut>)> {
    let of_body = &scan.body.jaxpr;
    let is_product = |equation: &Equation| product_of(&*equation.primitive).is_some();
    if scan.constants == 0 || !of_body.equations.iter().any(is_product) {
        return None;
    }
    // Products read transposed constants as they are.
    let mut body = optimize(of_body.clone());
    let constants = &body.inputs[..scan.constants];
    let found = body.equations.iter().enumerate();
    let found = found.filter_map(|(place, equation)| {
        let right = equation.inputs.get(1)?;
        let constant = constants.iter().position(|constant| constant == right)?;
        Some((place, constant, turned(&body, equation)?))
    });
    let found: Vec<_> = found.collect();
    if found.is_empty() {
        return None;
    }
    let mut added: Vec<LaidOut> = Vec::new();
    for (place, constant, (dot, transpose, info)) in found {
        let known = |it: &&LaidOut| it.constant == constant && it.transpose == transpose;
        let variable = if let Some(known) = added.iter().find(known) {
            known.variable
        } else {
            let variable = body.unused_input(info.clone());
            added.push(LaidOut {
                constant,
                transpose,
                info,
                variable,
            });
            variable
        };
        body.equations[place].primitive = Arc::new(dot);
        body.equations[place].inputs[1] = variable;
    }
    let variables = added.iter().map(|laid_out| laid_out.variable);
    body.inputs
        .splice(scan.constants..scan.constants, variables);
    let scan = Scan {
        body: scan.body.derived(body),
        constants: scan.constants + added.len(),
        ..*scan
    };
    Some((scan, added))
}

/// Returns the product of an equation with a transposed right operand, which is described, too. Returns `None` if the product reads its
/// operand as it is, or if the other product does not have equal bits.
fn turned(jaxpr: &Jaxpr, equation: &Equation) -> Option<(DotGeneral, Transpose, AbstractArray)> {
    let dot = product_of(&*equation.primitive)?;
    let (left, right) = (
        jaxpr.info(equation.inputs[0]),
        jaxpr.info(equation.inputs[1]),
    );
    if dot.is_divisible(left, right) {
        return None;
    }
    let (_, side) = dot.sides(left.rank(), right.rank());
    let axes = side.batch.iter().chain(side.contract).chain(&side.free);
    let permutation: AxisList = axes.copied().collect();
    let shape: Shape = permutation.iter().map(|&axis| right.shape[axis]).collect();
    let laid_out = AbstractArray::new(right.dtype, shape);
    let batch = side.batch.len();
    let turned = DotGeneral {
        contract: (
            dot.contract.0.clone(),
            (batch..batch + side.contract.len()).collect(),
        ),
        batch: (dot.batch.0.clone(), (0..batch).collect()),
    };
    let is_equal = turned.is_divisible(left, &laid_out)
        && turned.summation(left, &laid_out) == dot.summation(left, right);
    is_equal.then_some((turned, Transpose { permutation }, laid_out))
}
