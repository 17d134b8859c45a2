//! A leaf of one's own that is trained, without `#[leaf(param)]`.

use pytree_core::{Leaf, Module};

#[derive(Leaf, Clone, Debug)]
struct Array(Vec<f32>);

#[derive(Module, Clone, Debug)]
struct Scale {
    #[param]
    factor: Array,
}

fn main() {}
