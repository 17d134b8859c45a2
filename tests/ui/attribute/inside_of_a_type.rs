//! A field has a kind, and no part of it has another.

use pytree::prelude::*;

#[derive(Module)]
struct Model {
    a: (#[param] f32, #[r#static] i32),
}

fn main() {}
