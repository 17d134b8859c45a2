//! A type of other leaves derives, and is refused where it is used.

use pytree_core::{Module, tree};

#[derive(Module)]
struct Scale {
    #[param]
    factor: f64,
}

fn count(scale: &Scale) -> usize {
    tree::leaves::<f32, _>(scale).len()
}

fn main() {}
