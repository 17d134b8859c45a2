//! A table of replacements while a pass runs.

use crate::tensor::jaxpr::{Equation, Jaxpr, Variable};

/// The new variable for each old variable.
pub(super) struct Replacements(Vec<Variable>);

impl Replacements {
    /// Returns a table that replaces each variable by itself.
    pub(super) fn none(jaxpr: &Jaxpr) -> Self {
        Self(jaxpr.all_variables().collect())
    }

    pub(super) fn of(&self, variable: Variable) -> Variable {
        self.0[variable.index()]
    }

    /// Replaces `variable` by `by`. No later call may replace the variable `by`, because each variable is looked up in
    /// the table only once.
    pub(super) fn replace(&mut self, variable: Variable, by: Variable) {
        self.0[variable.index()] = by;
    }

    pub(super) fn in_inputs(&self, equation: &mut Equation) {
        for input in &mut equation.inputs {
            *input = self.of(*input);
        }
    }

    pub(super) fn in_outputs(&self, jaxpr: &mut Jaxpr) {
        for output in &mut jaxpr.outputs {
            *output = self.of(*output);
        }
    }
}
