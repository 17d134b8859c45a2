//! A field that is a reference holds what can be sent to other threads, as every transformation may.

use std::cell::Cell;

use pytree::prelude::*;

#[derive(Module)]
struct Model {
    #[state]
    calls: Ref<Cell<i32>>,
}

fn main() {}
