//! A module has kinds of its own, in a reference too.

use pytree::prelude::*;

#[derive(Module)]
struct Model {
    #[param]
    linear: Ref<Linear>,
}

fn main() {}
