//! A method of a type without a derive.

use pytree::prelude::*;
use pytree::shapes;

struct Plain {
    weight: Tensor,
}

impl Plain {
    #[shapes(x = "... in")]
    fn forward(&self, x: &Tensor) -> Tensor {
        x.matmul(&self.weight)
    }
}

fn main() {}
