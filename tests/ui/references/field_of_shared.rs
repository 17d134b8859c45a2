//! What is shared is not changed in place: other handles would change unseen.

use pytree::prelude::*;

#[derive(Module, Clone, Debug)]
struct Model {
    #[param]
    weight: Tensor,
}

fn main() {
    let mut layers = vec![
        Shared::new(Model {
            weight: Tensor::from(2.0_f32),
        });
        2
    ];
    layers[0].weight = Tensor::from(3.0_f32);
}
