//! A generic parameter is one of floats only.

use pytree_core::{Module, tree};

#[derive(Module)]
struct Scale<T> {
    #[param]
    factor: T,
}

fn count(scale: &Scale<i32>) -> usize {
    tree::any_leaves(scale).len()
}

fn main() {}
