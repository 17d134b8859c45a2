//! The value of a reference changes: no compiled function would see it.

use pytree::prelude::*;

#[derive(Module)]
struct Model {
    #[r#static]
    calls: Ref<Tensor>,
}

fn main() {}
