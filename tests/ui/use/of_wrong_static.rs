//! What uses a static type with a wrong attribute is not reported too.

use pytree_core::{Module, Static};

#[derive(Static, Clone)]
#[pytree(crat = pytree_core)]
struct Setting {
    rate: f32,
}

#[derive(Module)]
struct Model {
    #[r#static]
    setting: Setting,
}

fn main() {}
