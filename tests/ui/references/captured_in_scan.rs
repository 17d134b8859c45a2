//! A captured model can't be changed by the steps of a loop: it is part of the carry.

use pytree::prelude::*;

use pytree::control::scan;

#[derive(Module, Clone, Debug)]
struct Model {
    #[param]
    weight: Tensor,
}

fn main() {
    let mut model = Model {
        weight: Tensor::from(2.0_f32),
    };
    let (sum, _) = scan(
        |sum: Tensor, x: Tensor| {
            model.weight = &model.weight * 2.0;
            (sum + &x * &model.weight, x)
        },
        Tensor::from(0.0_f32),
        Tensor::from([1.0_f32, 2.0]),
    );
    println!("{sum}");
}
