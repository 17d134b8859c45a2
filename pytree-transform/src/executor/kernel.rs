//! A fused kernel with the variables that it reads and writes.

use pytree_kernels::fused::Kernel;

use crate::primitives::dot::product_of;
use crate::tensor::jaxpr::{Equation, Jaxpr, Variable};

/// Several equations that run in one kernel.
#[derive(Debug)]
pub(super) struct FusedKernel {
    pub(super) kernel: Kernel,
    /// The variables that the kernel reads from memory, in the order of its inputs.
    pub(super) inputs: Vec<Variable>,
    /// The variables that the kernel writes to memory, in the order of its results.
    pub(super) outputs: Vec<Variable>,
}

impl FusedKernel {
    /// Lets the kernel follow the product that computes one of its inputs. Returns false if it cannot.
    pub(super) fn follow(&mut self, jaxpr: &Jaxpr, equation: &Equation, is_kept: bool) -> bool {
        let Some(dot) = product_of(&*equation.primitive) else {
            return false;
        };
        let product = equation.outputs[0];
        let (left, right) = (equation.inputs[0], equation.inputs[1]);
        let Some(input) = self.inputs.iter().position(|&input| input == product) else {
            return false;
        };
        let operands = [jaxpr.info(left), jaxpr.info(right)];
        let result = jaxpr.info(product);
        if !self.kernel.follow(dot, operands, result, input, is_kept) {
            return false;
        }
        self.inputs[input] = left;
        self.inputs.push(right);
        if is_kept {
            self.outputs.push(product);
        }
        true
    }

    /// Returns the inputs that results may overwrite.
    pub(super) fn overwritten(&self) -> impl Iterator<Item = Variable> {
        self.kernel.overwritten().map(|input| self.inputs[input])
    }
}
