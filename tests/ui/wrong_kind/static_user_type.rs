//! A type that can't be compared.

use pytree_core::Module;

struct Setting {
    rate: f32,
}

#[derive(Module)]
struct Model {
    #[r#static]
    setting: Setting,
}

fn main() {}
