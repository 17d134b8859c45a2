//! The attributes of the item, of its variants and of its fields are read before anything is refused.

use pytree_core::Module;

#[derive(Module)]
#[module(static)]
enum Layer<'a> {
    #[param]
    Scale(#[param(1)] f32, &'a str),
    Named {
        #[module(frozen)]
        name: String,
    },
}

fn main() {}
