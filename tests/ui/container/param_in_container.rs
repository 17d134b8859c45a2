//! The fields of a plain container have no kind.

use pytree_core::Pytree;

#[derive(Pytree)]
struct Batch {
    #[param]
    input: f32,
}

fn main() {}
