//! The builder of a jaxpr. A trace uses the builder to record a function, equation by equation.

use std::panic::Location;
use std::sync::Arc;

use pytree_kernels::base::dtype::AbstractArray;
use smallvec::SmallVec;

use super::variable::Variable;
use super::{Equation, Jaxpr};
use crate::base::axis_names::AxisName;
use crate::tensor::handle::Tensor;
use crate::tensor::primitive::{Outputs, Primitive};

/// Records the equations of a jaxpr.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    pub(crate) variables: Vec<AbstractArray>,
    pub(crate) inputs: Vec<Variable>,
    pub(crate) constants: Vec<(Variable, Tensor)>,
    pub(crate) equations: Vec<Equation>,
    pub(crate) batch_axes: Vec<(AxisName, usize)>,
}

impl Builder {
    /// Registers that the recorded function depends on a batch axis and its length.
    pub(crate) fn depend_on(&mut self, name: &AxisName, length: usize) {
        if !self.batch_axes.iter().any(|(known, _)| known == name) {
            self.batch_axes.push((name.clone(), length));
        }
    }

    fn variable(&mut self, info: AbstractArray) -> Variable {
        self.variables.push(info);
        Variable::at(self.variables.len() - 1)
    }

    /// Adds an input to the jaxpr, and returns its variable.
    pub(crate) fn input(&mut self, info: AbstractArray) -> Variable {
        let variable = self.variable(info);
        self.inputs.push(variable);
        variable
    }

    /// Returns the variable of a tensor from a lower trace level. A new tensor is added as a constant.
    pub(crate) fn constant(&mut self, tensor: &Tensor) -> Variable {
        // Search only the recent constants, because the uses of a constant are nearly always close together.
        if let Some((variable, _)) = self
            .constants
            .iter()
            .rev()
            .take(16)
            .find(|(_, known)| known.same(tensor))
        {
            return *variable;
        }
        let variable = self.variable(tensor.info().clone());
        self.constants.push((variable, tensor.clone()));
        variable
    }

    /// Adds an equation to the jaxpr.
    pub(crate) fn equation(
        &mut self,
        primitive: Arc<dyn Primitive>,
        inputs: SmallVec<[Variable; 4]>,
        results: &Outputs<AbstractArray>,
        line: &'static Location<'static>,
    ) -> SmallVec<[Variable; 1]> {
        let outputs: SmallVec<[Variable; 1]> = results
            .iter()
            .map(|info| self.variable(info.clone()))
            .collect();
        self.equations.push(Equation {
            primitive,
            inputs,
            outputs: outputs.clone(),
            line,
        });
        outputs
    }

    /// Returns the recorded jaxpr and the traced tensors that the function captured. These tensors are the last inputs
    /// of the jaxpr.
    pub(crate) fn finish(self, outputs: Vec<Variable>) -> (Jaxpr, Vec<Tensor>) {
        let mut inputs = self.inputs;
        let mut constants = Vec::new();
        let mut captured = Vec::new();
        for (variable, tensor) in self.constants {
            if tensor.tracer().is_some() {
                inputs.push(variable);
                captured.push(tensor);
            } else {
                constants.push((variable, tensor));
            }
        }
        (
            Jaxpr {
                variables: self.variables,
                inputs,
                constants,
                equations: self.equations,
                outputs,
                batch_axes: self.batch_axes,
            },
            captured,
        )
    }
}
