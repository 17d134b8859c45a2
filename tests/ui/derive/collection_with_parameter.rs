//! A collection has no parameters.

use pytree_core::Collection;

#[derive(Collection)]
struct Average<const N: usize>;

fn main() {}
