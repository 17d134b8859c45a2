//! A field of a plain container is a pytree.

use pytree_core::Pytree;

struct Label(u8);

#[derive(Pytree)]
struct Batch {
    labels: Vec<Label>,
}

fn main() {}
