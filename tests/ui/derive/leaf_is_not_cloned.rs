//! A leaf can be copied.

use pytree_core::Leaf;

#[derive(Leaf, Debug)]
struct Key(u32);

fn main() {}
