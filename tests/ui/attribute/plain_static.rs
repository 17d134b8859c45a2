//! `static` is a reserved word of Rust: write `#[r#static]` or `#[module(static)]`.

use pytree_core::Module;

#[derive(Module)]
struct Model {
    #[static]
    size: usize,
}

fn main() {}
// gallery 4: `static` as an attribute
