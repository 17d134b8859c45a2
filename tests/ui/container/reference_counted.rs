//! A plain container holds a shared node in a `Shared`.

use std::rc::Rc;

use pytree::prelude::*;


#[derive(Pytree)]
struct Batch {
    images: Rc<Tensor>,
}

fn main() {}
