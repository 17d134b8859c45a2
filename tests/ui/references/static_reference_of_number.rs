//! The value of a reference changes, a number too: it is a state, however comparable numbers are.

use pytree::prelude::*;

#[derive(Module)]
struct Model {
    #[r#static]
    calls: Ref<i32>,
}

fn main() {}
