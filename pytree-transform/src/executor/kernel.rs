//! A fused kernel with the variables that it reads and writes.

use std::any::Any;

use pytree_kernels::fused::{Followed, Kernel};
use pytree_kernels::loops::convolution::Convolution;

use crate::primitives::dot::product_of;
use crate::tensor::jaxpr::{Equation, Jaxpr, Variable};
use crate::tensor::primitive::Primitive;

/// Returns the primitive as an operation that a kernel may follow, or `None` if it is another primitive.
pub(super) fn followed(primitive: &dyn Primitive) -> Option<Followed> {
    let any: &dyn Any = primitive;
    let convolution = any.downcast_ref::<Convolution>();
    let product = product_of(primitive).cloned().map(Followed::Product);
    product.or_else(|| convolution.map(|found| Followed::Convolution(Box::new(found.clone()))))
}

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
    /// Lets the kernel follow the operation that computes one of its inputs. Returns false if it cannot.
    pub(super) fn follow(&mut self, jaxpr: &Jaxpr, equation: &Equation, is_kept: bool) -> bool {
        let Some(followed) = followed(&*equation.primitive) else {
            return false;
        };
        let output = equation.outputs[0];
        let (left, right) = (equation.inputs[0], equation.inputs[1]);
        let Some(input) = self.inputs.iter().position(|&input| input == output) else {
            return false;
        };
        let operands = [jaxpr.info(left), jaxpr.info(right)];
        let result = jaxpr.info(output);
        if !self
            .kernel
            .follow(followed, operands, result, input, is_kept)
        {
            return false;
        }
        self.inputs[input] = left;
        self.inputs.push(right);
        if is_kept {
            self.outputs.push(output);
        }
        true
    }

    /// Returns the inputs that results may overwrite.
    pub(super) fn overwritten(&self) -> impl Iterator<Item = Variable> {
        self.kernel.overwritten().map(|input| self.inputs[input])
    }
}
