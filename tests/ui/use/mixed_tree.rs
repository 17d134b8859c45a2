//! A tree of any leaves, where tensors are needed.

use pytree::prelude::*;

fn main() {
    let _ = jit(|tree: Tree| tree);
}
