//! A closure can't be compared, a function pointer can.

use pytree_core::Module;

#[derive(Module)]
struct Model {
    #[r#static]
    activation: Box<dyn Fn(f32) -> f32 + Send + Sync>,
}

fn main() {}
