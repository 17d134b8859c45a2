//! ResNet-18 with 10 classes and 32 images of 32 × 32 pixels: `cargo bench --bench resnet --features models [-- forward | train]`.
//!
//! `train` is a training step: the loss, its gradient and an update of Adam. `--save FILE` writes the parameters first with the names
//! of torchvision, unless the file is there. Prints the lines that `jax_resnet.py` prints.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    reason = "a benchmark is read as a script"
)]

#[allow(dead_code, reason = "there are no texts")]
#[path = "support/steps.rs"]
mod steps;
mod support;
#[allow(dead_code, reason = "the data of digits are not used")]
#[path = "../examples/digits/workload.rs"]
mod workload;

use pytree::checkpoint::{SaveOptions, save_with};
use pytree::models::ResNet18;
use pytree::prelude::*;

fn images() -> (Tensor, Tensor) {
    let x = Tensor::new(
        [32, 32, 32, 3],
        workload::uniform(10, 32 * 32 * 32 * 3, 1.0),
    );
    (x, Tensor::from(workload::labels(20, 32, 10)))
}

/// Measures the largest logit, with the stored statistics of the normalisations.
fn forward(model: ResNet18) {
    let (mut model, (x, _)) = (eval(&model), images());
    let logit = jit_mut(|(model, x): (&mut ResNet18, Tensor)| model.forward(&x).max());
    let advance = || logit((&mut model, x.clone()));
    support::measure_steps(["K", "resnet-forward", "pytree"], advance, steps::number);
}

fn train(model: ResNet18) {
    let optimizer = Optimizer::new(&model, adam(1e-4));
    let names = ["K", "resnet-train"];
    steps::train(names, model, optimizer, vec![images()], |model, x, y| {
        softmax_cross_entropy(&model.forward(x), y).mean()
    });
}

fn main() {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let model = ResNet18::new(10, &mut Rngs::new(0));
    if let Some(at) = arguments.iter().position(|it| it == "--save") {
        let file = arguments.drain(at..at + 2).nth(1).unwrap();
        if !std::path::Path::new(&file).exists() {
            let options = SaveOptions::new().names(model.names());
            save_with(&file, &model, &options).unwrap();
        }
    }
    arguments.retain(|it| !it.starts_with("--"));
    let runs = |case: &str| arguments.is_empty() || arguments.iter().any(|it| it == case);
    if runs("forward") {
        forward(model.clone());
    }
    if runs("train") {
        train(model);
    }
}
