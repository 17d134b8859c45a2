//! A leaf owns its data.

use pytree_core::Leaf;

#[derive(Leaf, Clone, Debug)]
struct Key<'a>(&'a str);

fn main() {}
