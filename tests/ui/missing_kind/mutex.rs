//! A lock around a module.

use std::sync::{Arc, Mutex};

use pytree::prelude::*;

#[derive(Module)]
struct Inner {
    #[param]
    weight: Tensor,
}

#[derive(Module)]
struct Model {
    inner: Arc<Mutex<Inner>>,
}

fn main() {}
