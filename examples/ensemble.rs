//! An ensemble: eight classifiers of handwritten digits, which one compiled step trains together (Lakshminarayanan et al.
//! 2017, "Simple and scalable predictive uncertainty estimation using deep ensembles").
//!
//! Run it with `cargo run --release --example ensemble`. It prints the test accuracy of each member and of the ensemble.
//! It then prints how much the members disagree about the test images that the ensemble classifies correctly, about those
//! that it classifies incorrectly, and about images of noise:
//!
//! ```text
//! members: [0.97… …]
//! disagreement: 0.0… if right, 0.1… if wrong, 0.5… on noise
//! accuracy of the ensemble: 0.97…
//! ```
//!
//! The disagreement is the mutual information of the prediction and the member, in nats (Houlsby et al. 2011, "Bayesian
//! active learning for classification and preference learning"). `--short` trains for 5 epochs.

#[path = "digits/data.rs"]
mod data;

use pytree::data::Batches;
use pytree::nn::{accuracy, softmax};
use pytree::prelude::*;

use crate::data::PIXELS;

const MEMBERS: usize = 8;
const BATCH: usize = 64;

/// Creates one member with its optimizer.
fn create(mut rngs: Rngs) -> (Mlp, Optimizer<Mlp>) {
    let model = Mlp::new(&[PIXELS, 64, 64, 10], Activation::Relu, &mut rngs);
    let optimizer = Optimizer::new(&model, adam(2e-3));
    (model, optimizer)
}

/// Trains one member on a batch.
fn step((model, optimizer, (x, y)): (&mut Mlp, &mut Optimizer<Mlp>, (Tensor, Tensor))) {
    let loss = |model: &Mlp| softmax_cross_entropy(&model.forward(&x), &y).mean();
    let gradient = grad(loss)(&*model);
    optimizer.update(model, &gradient);
}

/// Returns the entropy of distributions over the last axis.
fn entropy(probabilities: &Tensor) -> Tensor {
    // Without the small number, a probability of 0 would give NaN.
    -(probabilities * (probabilities + 1e-12).log()).sum_axes([-1])
}

/// Returns the entropy of the members' mean prediction minus their mean entropy: `[members, batch, classes]` to `[batch]`.
fn disagreement(each: &Tensor) -> Tensor {
    entropy(&each.mean_axes([0])) - entropy(each).mean_axes([0])
}

fn main() -> Result<(), String> {
    let is_short = std::env::args().any(|argument| argument == "--short");
    let [training, (images, digits)] = data::load(&Key::new(0))?;

    // `vmap` turns functions of one member into functions of all members. The members together are one `Mlp`, whose
    // leaves have one more axis in front. All members receive the same batch, so its axis is `None`.
    let mut rngs = Rngs::new(0);
    let (mut models, mut optimizers) = vmap(create)(rngs.split(MEMBERS));
    let step = jit_mut(vmap_mut(step).in_axes((0, 0, None)));
    let batches = Batches::new(training, BATCH).shuffle(&Key::new(1));
    for epoch in 0..if is_short { 5 } else { 40 } {
        for batch in batches.epoch(epoch) {
            step((&mut models, &mut optimizers, batch));
        }
    }

    let predict = |(model, x): (Mlp, Tensor)| softmax(&model.forward(&x), -1);
    let predict = vmap(predict).in_axes((0, None));
    let each = predict((models.clone(), images));
    let accuracies = vmap(|probabilities: Tensor| accuracy(&probabilities, &digits))(each.clone());
    println!("members: {accuracies:.4}");

    let together = each.mean_axes([0]);
    let of_test = disagreement(&each);
    let predicted = together.argmax(-1);
    let (is_right, is_wrong) = (predicted.equal(&digits), predicted.not_equal(&digits));
    let noise = rngs.uniform(DType::F32, [500, PIXELS]);
    println!(
        "disagreement: {:.3} if right, {:.3} if wrong, {:.3} on noise",
        of_test.mean_where(&is_right).item::<f32>(),
        of_test.mean_where(&is_wrong).item::<f32>(),
        disagreement(&predict((models, noise))).mean().item::<f32>()
    );
    let accuracy = accuracy(&together, &digits).item::<f32>();
    println!("accuracy of the ensemble: {accuracy:.4}");
    Ok(())
}
