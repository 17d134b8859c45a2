//! The fields of a static type are static.

use pytree_core::Static;

#[derive(Clone)]
struct Opaque;

#[derive(Static, Clone)]
struct Setting {
    opaque: Opaque,
}

fn main() {}
