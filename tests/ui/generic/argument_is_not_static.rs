//! A static field of a type parameter takes what can be compared.

use pytree_core::{Module, tree};

struct Setting;

#[derive(Module)]
struct Model<S> {
    #[r#static]
    setting: S,
}

fn count(model: &Model<Setting>) -> usize {
    tree::any_leaves(model).len()
}

fn main() {}
