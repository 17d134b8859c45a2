//! An alias does not hide what the mistake is.

use std::sync::Arc;

use pytree::prelude::*;

#[derive(Module)]
struct Inner {
    #[param]
    weight: Tensor,
}

type Node = Arc<Inner>;

#[derive(Module)]
struct Model {
    inner: Node,
}

fn main() {}
