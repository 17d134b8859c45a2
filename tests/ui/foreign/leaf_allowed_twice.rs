//! `leaf_field!` for a type that derives `Leaf`, instead of `#[leaf(param)]`.

use pytree_core::{Leaf, leaf_field};

#[derive(Leaf, Clone, Debug)]
struct Array(Vec<f32>);

leaf_field!(param Array);

fn main() {}
