//! A generic module is one for modules only.

use pytree_core::{Module, tree};

#[derive(Module)]
struct Residual<M> {
    inner: M,
}

fn count(residual: &Residual<String>) -> usize {
    tree::any_leaves(residual).len()
}

fn main() {}
