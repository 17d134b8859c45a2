//! An argument that `#[leaf]` does not have.

use pytree_core::Leaf;

#[derive(Leaf, Clone, Debug)]
#[leaf(other)]
struct Array(Vec<f32>);

fn main() {}
