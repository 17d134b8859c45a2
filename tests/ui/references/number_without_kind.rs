//! A number behind a reference is a leaf, and no size that could be static.

use pytree::prelude::*;

#[derive(Module)]
struct Model {
    calls: Ref<i32>,
}

fn main() {}
