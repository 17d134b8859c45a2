//! A part of the model does not derive `Module`.

use pytree::prelude::*;

struct Linear {
    weight: Tensor,
}

#[derive(Module)]
struct Model {
    layers: Vec<Linear>,
}

fn main() {}
// gallery 5: A part of the model without a derive
