//! A shared node is not static, even if its values can be compared: the sharing would be lost.

use pytree::prelude::*;

#[derive(Module)]
struct Model {
    #[r#static]
    size: Shared<f32>,
}

fn main() {}
