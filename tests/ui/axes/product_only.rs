//! A name that occurs only in a product.

use pytree::prelude::*;
use pytree::shapes;

#[derive(Module, Clone, Debug)]
struct Attention {
    #[param("in hidden")]
    query: Tensor,
}

impl Attention {
    #[shapes(x = "length heads*head_dim")]
    fn forward(&self, x: &Tensor) -> Tensor {
        x.clone()
    }
}

fn main() {}
