//! A parameter at several places is a `Shared`.

use std::sync::Arc;

use pytree::prelude::*;

#[derive(Module)]
struct Model {
    #[param]
    weight: Arc<Tensor>,
}

fn main() {}
