//! rustc reserves the word: it is `#[r#static]` or `#[module(static)]`.

use pytree_core::Module;

#[derive(Module)]
struct Model {
    #[static]
    size: usize,
}

fn main() {}
