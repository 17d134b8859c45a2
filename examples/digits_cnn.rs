//! Trains a convolutional network on handwritten digits: `cargo run --release --example digits_cnn`.
//!
//! The last printed line is `test accuracy: 0.9…`. `--short` trains for a few epochs, for a quick check.

use std::error::Error;
use std::time::Instant;

use pytree::data::csv::{self, CsvOptions};
use pytree::data::{Batches, LastBatch};
use pytree::nn::{Conv, Flatten, Pool, accuracy, summary};
use pytree::optim::{Schedule, adamw};
use pytree::prelude::*;
use pytree::training::Progress;

const CLASSES: usize = 10;
const TRAINING: usize = 1437;
const BATCH: usize = 64;
/// The seed of the split into training and test images, which is also that of the example `digits`.
const SEED: u64 = 0;

/// Returns images of `[count, 8, 8, 1]` with pixels from 0 to 1, and the digits that they show: `[count]`.
fn digits() -> Result<(Tensor, Tensor), csv::CsvError> {
    let table = csv::parse::<f32>(include_str!("data/digits.csv"), CsvOptions::default())?;
    let images = table.index(ix![.., ..64]) / 16.0;
    let digits = table.index(ix![.., 64]).convert(DType::I32);
    Ok((images.reshape([images.shape()[0], 8, 8, 1]), digits))
}

fn network(rngs: &mut Rngs) -> Sequential {
    sequential![
        Conv::new(1, 32, [3, 3], rngs),
        BatchNorm::new(32, rngs),
        Activation::Relu,
        Conv::new(32, 32, [3, 3], rngs),
        BatchNorm::new(32, rngs),
        Activation::Relu,
        Pool::max([2, 2]).strides(2),
        Conv::new(32, 64, [3, 3], rngs),
        BatchNorm::new(64, rngs),
        Activation::Relu,
        Pool::max([2, 2]).strides(2),
        Flatten::default(),
        Dropout::new(0.3, rngs),
        Linear::new(2 * 2 * 64, CLASSES, rngs),
    ]
}

fn main() -> Result<(), Box<dyn Error>> {
    let epochs = match std::env::args().nth(1).as_deref() {
        None => 20,
        Some("--short") => 6,
        Some(other) => {
            return Err(format!("unknown option {other}; the only option is --short").into());
        }
    };
    let started = Instant::now();
    let keys = Key::new(SEED).split(2);
    let (images, digits) = digits()?;
    let order = keys[0].permutation(digits.len());
    let (training, test) = (order.index(ix![..TRAINING]), order.index(ix![TRAINING..]));
    let part = |part: &Tensor| (images.take(part, 0), digits.take(part, 0));
    let batches = Batches::new(part(&training), BATCH).shuffle(&keys[1]);
    let (test_x, test_y) = part(&test);
    let batches = batches.last_batch(LastBatch::Drop).prefetch(2);

    let mut model = network(&mut Rngs::new(SEED));
    println!("{}", summary(&model));
    let steps = epochs * batches.per_epoch();
    let rate = Schedule::warmup_cosine(4e-3, 22, steps);
    let mut optimizer = Optimizer::new(&model, adamw(rate, 1e-2));
    let step = jit_mut(
        |(model, optimizer, x, y): (&mut Sequential, &mut Optimizer<_>, Tensor, Tensor)| {
            let (loss, gradient) = value_and_grad_mut(|model: &mut Sequential| {
                softmax_cross_entropy(&model.forward(&x), &y).mean()
            })(model);
            optimizer.update(model, &gradient);
            loss
        },
    );
    let mut progress = Progress::new(steps);
    let tested =
        |model: &Sequential| accuracy(&eval(model).forward(&test_x), &test_y).item::<f32>();
    for epoch in 0..epochs {
        let mut loss = Tensor::from(0.0_f32);
        for (x, y) in batches.epoch(epoch) {
            loss = step((&mut model, &mut optimizer, x, y));
            progress.step();
        }
        let values = [
            ("loss", loss.item::<f32>()),
            ("test accuracy", tested(&model)),
        ];
        progress.report(format_args!("epoch {:2}", epoch + 1), values);
    }
    drop(progress);
    println!("seconds: {:.1}", started.elapsed().as_secs_f64());
    println!("test accuracy: {:.4}", tested(&model));
    Ok(())
}
