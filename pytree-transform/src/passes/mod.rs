//! Passes: rewritings of a jaxpr that leave what it computes the same, bit for bit.
//!
//! They run once, before a jaxpr is scheduled for execution; differentiation and batching work on the jaxpr as
//! it was recorded. Each is one function from jaxpr to jaxpr. What a pass makes superfluous it
//! leaves where it is: dead code goes last.

mod common_subexpressions;
mod constant_folding;
mod simplify;

use crate::jaxpr::debug_verify;
use crate::tensor::jaxpr::{Equation, Jaxpr, Variable};

/// A pass with its name.
type Pass = (&'static str, fn(Jaxpr) -> Jaxpr);

/// The passes in the order in which they run.
const PASSES: [Pass; 5] = [
    ("dead code", Jaxpr::without_dead_code),
    ("constant folding", constant_folding::constant_folding),
    ("simplification", simplify::simplify),
    (
        "common subexpressions",
        common_subexpressions::common_subexpressions,
    ),
    ("dead code", Jaxpr::without_dead_code),
];

/// A jaxpr that computes the same with fewer equations.
pub(crate) fn optimize(jaxpr: Jaxpr) -> Jaxpr {
    PASSES.iter().fold(jaxpr, |jaxpr, (name, pass)| {
        let optimized = pass(jaxpr);
        debug_verify(&optimized, name);
        optimized
    })
}

/// Each pass alone, and all in order: for tests.
#[doc(hidden)]
pub fn each_pass(jaxpr: &Jaxpr) -> impl Iterator<Item = (&'static str, Jaxpr)> {
    let alone = PASSES
        .iter()
        .map(|(name, pass)| (*name, pass(jaxpr.clone())));
    let all = std::iter::once_with(|| ("all passes", optimize(jaxpr.clone())));
    alone.chain(all)
}

/// Which variable stands for which, while a pass goes through the equations.
struct Replacements(Vec<Variable>);

impl Replacements {
    /// Every variable stands for itself.
    fn none(jaxpr: &Jaxpr) -> Self {
        Self(jaxpr.all_variables().collect())
    }

    fn of(&self, variable: Variable) -> Variable {
        self.0[variable.index()]
    }

    /// From here on `by` stands for `variable`; it was replaced itself already, if at all.
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
