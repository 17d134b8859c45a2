//! A value is sown in a field, so that a misspelt name does not compile.

use pytree::prelude::*;

use pytree::kind::Intermediate;

use pytree::nn::Sown;

#[derive(Module)]
struct Block {
    linear: Linear,
    #[state(Intermediate)]
    y_mean: Sown,
}

impl Block {
    fn forward(&mut self, x: &Tensor) -> Tensor {
        let y = self.linear.forward(x);
        self.y_maen.sow(y.mean());
        y
    }
}

fn main() {}
