//! A variable of another library is static, so no function would see it.

use pytree_core::{Leaf, Module};

#[derive(Leaf, Clone, Debug)]
#[leaf(param)]
struct Var(Vec<f32>);

#[derive(Module, Clone, Debug)]
struct Scale {
    #[r#static]
    factor: Option<Var>,
}

fn main() {}
