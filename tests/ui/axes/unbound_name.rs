//! A name in `return` that neither an argument nor a field gives a length.

use pytree::prelude::*;
use pytree::shapes;

#[derive(Module, Clone, Debug)]
struct Linear {
    #[param("in out")]
    weight: Tensor,
}

impl Linear {
    #[shapes(x = "... in", return = "... outputs")]
    fn forward(&self, x: &Tensor) -> Tensor {
        x.matmul(&self.weight)
    }
}

fn main() {}
