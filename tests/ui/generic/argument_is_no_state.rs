//! A generic state is one of leaves only.

use pytree_core::{Module, tree};

#[derive(Module)]
struct Mean<T> {
    #[state]
    mean: Vec<T>,
}

fn count(mean: &Mean<String>) -> usize {
    tree::any_leaves(mean).len()
}

fn main() {}
