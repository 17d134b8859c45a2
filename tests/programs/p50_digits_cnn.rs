//! A convolutional network with batch normalisation and dropout learns to read digits.

use pytree::data::Batches;
use pytree::data::csv::{self, CsvOptions};
use pytree::nn::{Flatten, Pool, accuracy};
use pytree::prelude::*;

/// Returns images of `[count, 8, 8, 1]`, and the digits that they show.
fn digits() -> (Tensor, Tensor) {
    let text = include_str!("../../examples/data/digits.csv");
    let table = csv::parse::<f32>(text, CsvOptions::default()).unwrap();
    let images = table.index(ix![.., ..64]) / 16.0;
    let digits = table.index(ix![.., 64]).convert(DType::I32);
    (images.reshape([images.shape()[0], 8, 8, 1]), digits)
}

fn network(rngs: &mut Rngs) -> Sequential {
    sequential![
        Conv::new(1, 16, [3, 3], rngs),
        BatchNorm {
            momentum: 0.9,
            ..BatchNorm::new(16, rngs)
        },
        Activation::Relu,
        Pool::max([2, 2]).strides(2),
        Conv::new(16, 32, [3, 3], rngs),
        Activation::Relu,
        Pool::max([2, 2]).strides(2),
        Flatten::default(),
        Dropout::new(0.2, rngs),
        Linear::new(2 * 2 * 32, 10, rngs),
    ]
}

#[test]
fn convolutional_network_reads_digits() {
    let (images, digits) = digits();
    let mut model = network(&mut Rngs::new(0));
    let mut optimizer = Optimizer::new(&model, adam(5e-3));
    let step = jit_mut(
        |(model, optimizer, x, y): (&mut Sequential, &mut Optimizer<_>, Tensor, Tensor)| {
            let (loss, gradient) = value_and_grad_mut(|model: &mut Sequential| {
                softmax_cross_entropy(&model.forward(&x), &y).mean()
            })(model);
            optimizer.update(model, &gradient);
            loss
        },
    );
    let training = (images.index(ix![..1408]), digits.index(ix![..1408]));
    let batches = Batches::new(training, 32).shuffle(&Key::new(1));
    for (x, y) in (0..5).flat_map(|epoch| batches.epoch(epoch)) {
        step((&mut model, &mut optimizer, x, y));
    }
    let logits = eval(&model).forward(&images.index(ix![1408..]));
    let correct = accuracy(&logits, &digits.index(ix![1408..]));
    assert!(correct.item::<f32>() > 0.9, "{correct}");
}
