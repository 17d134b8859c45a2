//! A variational autoencoder of handwritten digits (Kingma and Welling 2013, "Auto-encoding variational Bayes").
//!
//! Run it with `cargo run --release --example vae`. It prints the negative evidence lower bound (ELBO) of the test images
//! in nats per image, as the sum of reconstruction and divergence. It then shows digits that the model draws from noise. The
//! last line is the mean squared error of reconstructed test images:
//!
//! ```text
//! epoch   0: -ELBO 50.…
//! …
//! reconstruction error: 0.02…
//! ```
//!
//! `--short` trains for 20 epochs.

#[path = "digits/data.rs"]
mod data;
#[path = "digits/ink.rs"]
mod ink;

use pytree::data::Batches;
use pytree::nn::{normal_kl_divergence, sigmoid, sigmoid_binary_cross_entropy};
use pytree::prelude::*;

use crate::data::PIXELS;
use crate::ink::picture;

const CODE: usize = 8;
const BATCH: usize = 64;

#[derive(Module, Clone, Debug)]
struct Vae {
    encoder: Mlp,
    decoder: Mlp,
}

impl Vae {
    fn new(rngs: &mut Rngs) -> Self {
        Self {
            encoder: Mlp::new(&[PIXELS, 128, 2 * CODE], Activation::Relu, rngs),
            decoder: Mlp::new(&[CODE, 128, PIXELS], Activation::Relu, rngs),
        }
    }

    /// Returns the mean and the logarithm of the variance of the codes of images.
    #[shapes(images = "f32[batch pixels]", return = ("f32[batch _]", "f32[batch _]"))]
    fn encode(&self, images: &Tensor) -> (Tensor, Tensor) {
        let code = self.encoder.forward(images);
        (code.index(ix![.., ..CODE]), code.index(ix![.., CODE..]))
    }

    /// Returns the probability that each pixel is white.
    fn decode(&self, codes: &Tensor) -> Tensor {
        sigmoid(&self.decoder.forward(codes))
    }

    /// Returns the two terms of the negative ELBO, as means over the images: the cross entropy of the images, decoded
    /// from random codes, and the divergence of the codes from the standard normal distribution.
    fn loss(&self, images: &Tensor, key: &Key) -> (Tensor, Tensor) {
        let (mean, log_variance) = self.encode(images);
        // The noise does not depend on the model, so the gradient passes through the mean and the variance.
        let noise = key.normal(DType::F32, mean.shape());
        let codes = &mean + (&log_variance * 0.5).exp() * noise;
        let logits = self.decoder.forward(&codes);
        let reconstruction = sigmoid_binary_cross_entropy(&logits, images).sum_axes([-1]);
        let divergence = normal_kl_divergence(&mean, &log_variance);
        (reconstruction.mean(), divergence.mean())
    }
}

fn train(mut model: Vae, training: &Tensor, test: &Tensor, epochs: usize) -> Vae {
    let mut optimizer = Optimizer::new(&model, adam(2e-3));
    let step = jit_mut(
        |(model, optimizer, images, key): (&mut Vae, &mut Optimizer<Vae>, Tensor, Key)| {
            let loss = |model: &Vae| {
                let (reconstruction, divergence) = model.loss(&images, &key);
                reconstruction + divergence
            };
            let gradient = grad(loss)(&*model);
            optimizer.update(model, &gradient);
        },
    );
    let batches = Batches::new(training.clone(), BATCH).shuffle(&Key::new(1));
    let mut rngs = Rngs::new(2);
    for epoch in 0..=epochs {
        if epoch % 20 == 0 {
            let (reconstruction, divergence) = model.loss(test, &Key::new(3));
            let terms = [reconstruction, divergence].map(|term| term.item::<f32>());
            let [reconstruction, divergence] = terms;
            let loss = reconstruction + divergence;
            println!("epoch {epoch:3}: -ELBO {loss:.2} = {reconstruction:.2} + {divergence:.2}");
        }
        for images in batches.epoch(epoch) {
            step((&mut model, &mut optimizer, images, rngs.next("noise")));
        }
    }
    model
}

fn main() -> Result<(), String> {
    let is_short = std::env::args().any(|argument| argument == "--short");
    let [(training, _), (test, _)] = data::load(&Key::new(0))?;

    let model = Vae::new(&mut Rngs::new(0));
    let model = train(model, &training, &test, if is_short { 20 } else { 200 });

    let drawn = model.decode(&Key::new(4).normal(DType::F32, [6, CODE]));
    println!("\n{}", picture(&drawn));

    let (codes, _) = model.encode(&test);
    let error = mse(&model.decode(&codes), &test).item::<f32>();
    println!("reconstruction error: {error:.4}");
    Ok(())
}
