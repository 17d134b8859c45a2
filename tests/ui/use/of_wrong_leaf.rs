//! What uses a leaf with a wrong attribute is not reported too.

use pytree_core::{Leaf, Module, tree};

#[derive(Leaf, Clone, Debug)]
#[pytree(crat = pytree_core)]
struct Key(u32);

#[derive(Module)]
struct Model {
    #[state]
    keys: Vec<Key>,
}

fn count(model: &Model) -> usize {
    tree::leaves::<Key, _>(model).len()
}

fn main() {}
