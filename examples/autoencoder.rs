//! An autoencoder with tied weights: the decoder multiplies by the transposes of the encoder's weights.
//!
//! Run it with `cargo run --release --example autoencoder`. It prints the parameters (each weight once) and the test
//! error of each epoch. It then shows some digits, and below them their reconstructions from a code of 16 numbers. The
//! last line is the test error of the model after it was saved and loaded.

#[path = "digits/data.rs"]
mod data;
#[path = "digits/ink.rs"]
mod ink;

use std::error::Error;
use std::path::Path;

use pytree::nn::{Initializer, gelu, sigmoid, summary};
use pytree::prelude::*;

use crate::data::{Digits, IMAGES, PIXELS, TRAINING};
use crate::ink::picture;

const WIDTHS: [usize; 3] = [PIXELS, 48, 16];
const BATCH: usize = 64;
const EPOCHS: usize = 30;

/// A layer of the encoder or the decoder.
#[derive(Module, Clone, Debug)]
struct Layer {
    /// `[inputs, outputs]` of the encoder; the decoder uses the transpose of this weight.
    #[param]
    weight: Shared<Tensor>,
    #[param]
    bias: Tensor,
}

#[derive(Module, Clone, Debug)]
struct Autoencoder {
    encoder: Vec<Layer>,
    decoder: Vec<Layer>,
}

impl Autoencoder {
    fn new(rngs: &mut Rngs) -> Self {
        let bias = |features| Tensor::zeros(DType::F32, [features]);
        let (mut encoder, mut decoder) = (Vec::new(), Vec::new());
        for pair in WIDTHS.windows(2) {
            let initial = Initializer::glorot_normal();
            // All clones of a `Shared` are the same weight: it has one gradient, one update and one checkpoint entry.
            let weight = Shared::new(initial.initialize(&rngs.params(), DType::F32, pair));
            encoder.push(Layer {
                weight: weight.clone(),
                bias: bias(pair[1]),
            });
            decoder.push(Layer {
                weight,
                bias: bias(pair[0]),
            });
        }
        decoder.reverse();
        Self { encoder, decoder }
    }

    /// Encodes `images: [batch, 64]` to codes: `[batch, 16]`.
    fn encode(&self, images: &Tensor) -> Tensor {
        self.encoder.iter().fold(images.clone(), |x, layer| {
            gelu(&(x.matmul(&layer.weight) + &layer.bias))
        })
    }

    /// Decodes codes to images with pixels between 0 and 1.
    fn decode(&self, codes: &Tensor) -> Tensor {
        let mut x = codes.clone();
        for (position, layer) in self.decoder.iter().enumerate() {
            if position > 0 {
                x = gelu(&x);
            }
            x = x.matmul(&layer.weight.t()) + &layer.bias;
        }
        sigmoid(&x)
    }

    /// Returns the mean squared difference between images and their reconstructions.
    fn error(&self, images: &Tensor) -> Tensor {
        mse(&self.decode(&self.encode(images)), images)
    }

    fn is_tied(&self) -> bool {
        let mut halves = self.encoder.iter().zip(self.decoder.iter().rev());
        halves.all(|(there, back)| there.weight.same(&back.weight))
    }
}

fn train(training: &Tensor, test: &Tensor, mut model: Autoencoder) -> Autoencoder {
    let mut optimizer = Optimizer::new(&model, adam(3e-3));
    let step = jit(
        |(mut model, mut optimizer, images): (Autoencoder, Optimizer<Autoencoder>, Tensor)| {
            let gradient = grad(|model: &Autoencoder| model.error(&images))(&model);
            optimizer.update(&mut model, &gradient);
            (model, optimizer)
        },
    );
    let mut rngs = Rngs::new(1);
    for epoch in 0..=EPOCHS {
        if epoch % 10 == 0 {
            let error = model.error(test).item::<f32>();
            println!("epoch {epoch:2}: test error {error:.4}");
        }
        if epoch == EPOCHS {
            break;
        }
        let order = rngs.next("shuffle").permutation(TRAINING);
        for start in (0..TRAINING - BATCH).step_by(BATCH) {
            let at = order.index(ix![start..start + BATCH]);
            (model, optimizer) = step((model, optimizer, training.take(&at, 0)));
        }
    }
    model
}

fn main() -> Result<(), Box<dyn Error>> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data/digits.csv");
    let digits = Digits::read(&file)?;
    let (images, _) = digits.batch(&(0..IMAGES).collect::<Vec<_>>());
    let [training, test] = [images.index(ix![..TRAINING]), images.index(ix![TRAINING..])];

    let model = Autoencoder::new(&mut Rngs::new(0));
    println!("{}", summary(&model));
    let model = train(&training, &test, model);

    let some = test.index(ix![..5]);
    println!(
        "{}{}",
        picture(&some),
        picture(&model.decode(&model.encode(&some)))
    );

    let file = std::env::temp_dir().join(format!("autoencoder-{}", std::process::id()));
    checkpoint::save(&file, &model)?;
    let loaded = checkpoint::load(&file, &Autoencoder::new(&mut Rngs::new(2)))?;
    let entries = checkpoint::inspect(&file)?;
    std::fs::remove_file(&file)?;
    println!("arrays in the checkpoint: {}", entries.len());
    println!("loaded with tied weights: {}", loaded.is_tied());
    println!("test error: {:.4}", loaded.error(&test).item::<f32>());
    Ok(())
}
