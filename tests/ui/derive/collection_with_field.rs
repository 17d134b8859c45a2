//! A collection is a name.

use pytree_core::Collection;

#[derive(Collection)]
struct Average {
    rate: f32,
}

fn main() {}
