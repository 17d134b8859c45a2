//! A leaf owns what it holds.

use pytree_core::Leaf;

#[derive(Leaf, Clone, Debug)]
struct Key<'a>(&'a str);

fn main() {}
