//! Gradients of single examples: their norms, and training with clipped gradients and noise (Abadi et al. 2016, "Deep
//! learning with differential privacy").
//!
//! Run it with `cargo run --release --example per_example_gradients`. It prints the norms of the gradients of six examples
//! before any training, the largest norm after clipping, and how far the mean of all unclipped gradients is from the
//! gradient of the mean loss. It then trains a classifier of handwritten digits with clipped gradients and noise:
//!
//! ```text
//! norms of the gradients: [4.… …]
//! largest norm after clipping: 1.0000
//! the mean of the gradients and the gradient of the mean differ by 2e-7
//! test accuracy: 0.9…
//! ```
//!
//! `--short` trains for 5 epochs instead of 30.

#[path = "digits/data.rs"]
mod data;

use pytree::Partition;
use pytree::data::Batches;
use pytree::nn::accuracy;
use pytree::optim::global_norm;
use pytree::prelude::*;

use crate::data::PIXELS;

const BATCH: usize = 64;
/// The largest norm of the gradient of one example.
const LONGEST: f64 = 1.0;
/// The standard deviation of the noise, as a multiple of `LONGEST`.
const NOISE: f64 = 1.0;

/// The gradient with respect to a classifier.
type Gradient = Partition<Mlp>;

fn loss(model: &Mlp, x: &Tensor, y: &Tensor) -> Tensor {
    softmax_cross_entropy(&model.forward(x), y).mean()
}

/// Returns the gradient of each example: the first axis of each leaf is that of the examples.
fn gradients(model: &Mlp, x: &Tensor, y: &Tensor) -> Gradient {
    let of_one = |(x, y): (Tensor, Tensor)| grad(|model: &Mlp| loss(model, &x, &y))(model);
    vmap(of_one)((x.clone(), y.clone()))
}

/// Returns the gradient of each example, scaled down if its norm is above `LONGEST`.
fn clipped(gradients: Gradient) -> Gradient {
    vmap(|gradient: Gradient| {
        let factor = (LONGEST / global_norm(&gradient)).minimum(1.0);
        gradient.map(|leaf| leaf * &factor)
    })(gradients)
}

/// Returns the norm of the gradient of each example.
fn norms(gradients: &Gradient) -> Tensor {
    vmap(|gradient: Gradient| global_norm(&gradient))(gradients.clone())
}

/// Returns the mean of clipped gradients and noise. One example changes the result by less than the noise does.
fn private(gradients: Gradient, key: &Key) -> Gradient {
    let mut rngs = Rngs::from(key.clone());
    clipped(gradients).map(|leaf| {
        let count = leaf.shape()[0] as f64;
        let sum = leaf.sum_axes([0]);
        let noise = rngs.normal(DType::F32, sum.shape()) * (NOISE * LONGEST);
        (sum + noise) / count
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let is_short = std::env::args().any(|argument| argument == "--short");
    let [(images, digits), (test, test_digits)] = data::load(&Key::new(0))?;
    let mut model = Mlp::new(&[PIXELS, 64, 10], Activation::Tanh, &mut Rngs::new(0));

    let each = gradients(&model, &images, &digits);
    println!(
        "norms of the gradients: {:.2}",
        norms(&each).index(ix![..6])
    );
    let largest = norms(&clipped(each.clone())).max();
    println!("largest norm after clipping: {:.4}", largest.item::<f32>());
    let mean = each.map(|leaf| leaf.mean_axes([0]));
    let of_mean = grad(|model: &Mlp| loss(model, &images, &digits))(&model);
    let difference = global_norm(&mean.map2(&of_mean, |left, right| left - right)?);
    println!(
        "the mean of the gradients and the gradient of the mean differ by {:.0e}",
        difference.item::<f32>()
    );

    let mut optimizer = Optimizer::new(&model, sgd(0.25));
    let step = jit_mut(
        |(model, optimizer, (x, y), key): (
            &mut Mlp,
            &mut Optimizer<Mlp>,
            (Tensor, Tensor),
            Key,
        )| {
            let gradient = private(gradients(model, &x, &y), &key);
            optimizer.update(model, &gradient);
        },
    );
    let batches = Batches::new((images, digits), BATCH).shuffle(&Key::new(1));
    let mut rngs = Rngs::new(2);
    for epoch in 0..if is_short { 5 } else { 30 } {
        for batch in batches.epoch(epoch) {
            step((&mut model, &mut optimizer, batch, rngs.next("noise")));
        }
    }
    let accuracy = accuracy(&model.forward(&test), &test_digits);
    println!("test accuracy: {:.4}", accuracy.item::<f32>());
    Ok(())
}
