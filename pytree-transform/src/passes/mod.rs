//! Compiler passes, which rewrite a jaxpr without changing a bit of its results.
//!
//! The passes run once, before a jaxpr is scheduled for execution. Differentiation and batching use the recorded jaxpr.
//! Each pass is a function from jaxpr to jaxpr. A pass may leave unused equations, and the last pass removes them.
//!
//! An equation with an effect is neither removed nor merged, nor moved before another equation with an effect.

mod common_subexpressions;
mod constant_folding;
mod joined_parts;
mod joined_sums;
mod loop_constants;
mod quantized_dot;
mod quantized_weights;
mod simplify;

use std::any::Any;

pub(crate) use self::joined_sums::joined_sums;
use crate::jaxpr::debug_verify;
use crate::tensor::jaxpr::{Equation, Jaxpr, Variable};

/// The name of a pass and its function.
type Pass = (&'static str, fn(Jaxpr) -> Jaxpr);

/// The passes in execution order.
const PASSES: [Pass; 6] = [
    ("dead code", Jaxpr::without_dead_code),
    ("constant folding", constant_folding::constant_folding),
    ("simplification", simplify::simplify),
    ("joined parts", joined_parts::joined_parts),
    (
        "common subexpressions",
        common_subexpressions::common_subexpressions,
    ),
    ("dead code", Jaxpr::without_dead_code),
];

/// Returns a jaxpr that computes the same results with fewer equations.
pub(crate) fn optimize(jaxpr: Jaxpr) -> Jaxpr {
    PASSES.iter().fold(jaxpr, |jaxpr, (name, pass)| {
        let optimized = pass(jaxpr);
        debug_verify(&optimized, name);
        optimized
    })
}

/// Returns a jaxpr for the executor of the host: without the equations that divide values among devices, with products that read
/// quantized weights as they are stored, with constants of loops that are laid out before the loop, and with fewer equations.
pub(crate) fn optimize_for_host(jaxpr: Jaxpr) -> Jaxpr {
    let jaxpr = quantized_weights::quantized_weights(without_constraints(jaxpr));
    debug_verify(&jaxpr, "products with quantized weights");
    let jaxpr = loop_constants::laid_out_loop_constants(jaxpr);
    debug_verify(&jaxpr, "the layout of constants of loops");
    optimize(jaxpr)
}

/// Returns the parameters of an equation whose primitive has the type `P`.
fn parameters<P: 'static>(equation: &Equation) -> Option<&P> {
    let primitive: &dyn Any = &*equation.primitive;
    primitive.downcast_ref()
}

/// Replaces the result of each equation that divides a value among devices by the value itself.
fn without_constraints(mut jaxpr: Jaxpr) -> Jaxpr {
    let is_constraint = |equation: &Equation| equation.primitive.is_sharding_constraint();
    if !jaxpr.equations.iter().any(is_constraint) {
        return jaxpr;
    }
    let mut replacements = Replacements::none(&jaxpr);
    jaxpr.equations.retain_mut(|equation| {
        replacements.in_inputs(equation);
        let is_removed = is_constraint(equation);
        if let (true, &[input], &[output]) =
            (is_removed, &equation.inputs[..], &equation.outputs[..])
        {
            replacements.replace(output, input);
        }
        !is_removed
    });
    replacements.in_outputs(&mut jaxpr);
    debug_verify(&jaxpr, "removal of sharding constraints");
    jaxpr
}

/// Returns the jaxpr after each compiler pass alone, and after all passes in order, each with a name. Use it to see which pass
/// changes a program.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, each_pass, make_jaxpr};
/// let jaxpr = make_jaxpr(|x: Tensor| x.sin() + x.sin())(Tensor::from(1.0));
/// let (_, optimized) = each_pass(&jaxpr).last().unwrap();
/// assert_eq!((jaxpr.equations().len(), optimized.equations().len()), (3, 2));
/// ```
pub fn each_pass(jaxpr: &Jaxpr) -> impl Iterator<Item = (&'static str, Jaxpr)> {
    let alone = PASSES
        .iter()
        .map(|(name, pass)| (*name, pass(jaxpr.clone())));
    let all = std::iter::once_with(|| ("all passes", optimize(jaxpr.clone())));
    alone.chain(all)
}

/// A table of replacements while a pass runs: the new variable for each old variable.
struct Replacements(Vec<Variable>);

impl Replacements {
    /// Returns a table that replaces each variable by itself.
    fn none(jaxpr: &Jaxpr) -> Self {
        Self(jaxpr.all_variables().collect())
    }

    fn of(&self, variable: Variable) -> Variable {
        self.0[variable.index()]
    }

    /// Replaces `variable` by `by`. No later call may replace the variable `by`, because each variable is looked up in
    /// the table only once.
    fn replace(&mut self, variable: Variable, by: Variable) {
        self.0[variable.index()] = by;
    }

    fn in_inputs(&self, equation: &mut Equation) {
        for input in &mut equation.inputs {
            *input = self.of(*input);
        }
    }

    fn in_outputs(&self, jaxpr: &mut Jaxpr) {
        for output in &mut jaxpr.outputs {
            *output = self.of(*output);
        }
    }
}

#[cfg(test)]
mod tests;
