//! Named axes of a static field.

use pytree::prelude::*;

#[derive(Module, Clone, Debug)]
struct Linear {
    #[r#static("in")]
    inputs: usize,
}

fn main() {}
