//! A node that stands at several places is a `Shared`: an `Arc` would come apart at the first update.

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
