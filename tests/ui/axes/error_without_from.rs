//! A function whose error cannot hold a wrong shape.

use pytree::prelude::*;
use pytree::shapes;

#[shapes(x = "n n")]
fn trace(x: &Tensor) -> Result<Tensor, String> {
    Ok(x.clone())
}

fn main() {}
