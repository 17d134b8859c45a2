//! A shared node must be a `Shared`: the first update would separate the copies in an `Arc`.

use std::sync::Arc;

use pytree_core::Module;

#[derive(Module)]
struct Inner {
    #[param]
    weight: f32,
}

#[derive(Module)]
struct Model {
    inner: Arc<Inner>,
}

fn main() {}
