//! Programs as users write them: `cargo bench --bench models [-- H1 H7-1000]`.
//!
//! | case | program |
//! |---|---|
//! | `H1` | a training step of the network of the example `digits_cnn` |
//! | `H2` | a training step of the example `char_gpt`, and the letters that it writes with a cache |
//! | `H3` | a training step of the network of the example `gru`: a GRU under `scan` |
//! | `H4` | a step of the example `maml`: the gradient of a loss after a step of gradient descent |
//! | `H6` | a training step of case C1 that is not compiled |
//! | `H7-N` | the first call of a compiled function with N equations |
//!
//! H5 is the case `depthwise` of `benches/convolutions.rs`. Prints one JSON object a line, as `jax_models.py` does: the times, and
//! the losses, which show that both compute the same. Their parameters are drawn from the same keys.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    reason = "a benchmark is read as a script"
)]

#[path = "../examples/char_gpt/model.rs"]
mod gpt;
#[path = "support/mlp.rs"]
mod mlp;
#[path = "support/steps.rs"]
mod steps;
mod support;
#[allow(dead_code, reason = "not every case uses all of the data")]
#[path = "../examples/digits/workload.rs"]
mod workload;

use std::time::Instant;

use pytree::nn::{Conv, Flatten, GruCell, Pool, Rnn, with_cache};
use pytree::optim::adamw;
use pytree::prelude::*;

use gpt::{Gpt, LENGTH};
use steps::{number, texts, train};

fn report(workload: &str, operation: &str, unit: &str, value: f64) {
    support::report(["H", workload, operation, "pytree"], unit, value, value);
}

/// Returns four batches of images of 8 × 8 pixels.
fn images() -> Vec<(Tensor, Tensor)> {
    let batch = |k: u64| {
        let x = Tensor::new([64, 8, 8, 1], workload::uniform(10 + k, 64 * 64, 1.0));
        (x, Tensor::from(workload::labels(20 + k, 64, 10)))
    };
    (0..4).map(batch).collect()
}

/// H1: the network of the example `digits_cnn`.
fn convolutional() {
    let rngs = &mut Rngs::new(0);
    let model = sequential![
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
        Linear::new(2 * 2 * 64, 10, rngs),
    ];
    let optimizer = Optimizer::new(&model, adamw(1e-3, 1e-2));
    train(["H", "H1"], model, optimizer, images(), |model, x, y| {
        softmax_cross_entropy(&model.forward(x), y).mean()
    });
}

const LETTERS: usize = 64;

/// H2: the model of the example `char_gpt`.
fn char_gpt() {
    let model = Gpt::new(LETTERS, &mut Rngs::new(0));
    let optimizer = Optimizer::new(&model, adam(3e-3));
    let batches = texts(16, LENGTH, LETTERS as u64);
    train(
        ["H", "H2"],
        model.clone(),
        optimizer,
        batches,
        |model, x, y| softmax_cross_entropy(&model.forward(x), y).mean(),
    );
    generate(&eval(&model));
}

/// Writes letters with a cache of keys and values: the most probable letter after each letter.
fn generate(model: &Gpt) {
    let step = jit_mut(|(model, token): (&mut Gpt, Tensor)| {
        let logits = model.forward(&token).index(ix![.., -1]);
        let next = logits.argmax(-1).convert(DType::I32).reshape([1, 1]);
        (next, logits.max())
    });
    let empty = with_cache(model, [1], LENGTH);
    let write = || {
        let mut decoder = empty.clone();
        let mut token = Tensor::from([[0]]);
        let mut sum = 0.0;
        for _ in 0..LENGTH {
            let logit;
            (token, logit) = step((&mut decoder, token));
            sum += number(&logit);
        }
        sum
    };
    report("H2", "sum_of_largest_logits", "", write());
    let mut times: Vec<f64> = (0..support::samples(20))
        .map(|_| {
            let start = Instant::now();
            write();
            start.elapsed().as_secs_f64() * 1e6 / LENGTH as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    let names = ["H", "H2", "us_per_letter", "pytree"];
    support::report(names, "us", times[times.len() / 2], times[0]);
}

/// The network of the example `gru`.
#[derive(Module, Clone, Debug)]
struct Writer {
    letters: Embed,
    rnn: Rnn<GruCell>,
    output: Linear,
}

/// H3.
fn gru() {
    let rngs = &mut Rngs::new(0);
    let model = Writer {
        letters: Embed::new(128, 32, rngs),
        rnn: Rnn::new(GruCell::new(32, 128, rngs)),
        output: Linear::new(128, 128, rngs),
    };
    let optimizer = Optimizer::new(&model, adam(3e-3));
    train(
        ["H", "H3"],
        model,
        optimizer,
        texts(32, 64, 128),
        |model, x, y| {
            let states = model.rnn.forward(&model.letters.forward(x));
            softmax_cross_entropy(&model.output.forward(&states), y).mean()
        },
    );
}

/// H4: inputs and targets of 25 sine waves, 10 points of each to adapt to and 10 to be good at afterwards: `[25, 20, 1]`.
fn waves() -> Vec<(Tensor, Tensor)> {
    let wave = |k: u64| {
        let x = Tensor::new([25, 20, 1], workload::uniform(10 + k, 25 * 20, 5.0));
        let part = |stream, bound| Tensor::new([25, 1, 1], workload::uniform(stream, 25, bound));
        let y = (2.5 + part(20 + k, 2.4)) * (&x - part(30 + k, 1.5)).sin();
        (x, y)
    };
    (0..4).map(wave).collect()
}

fn maml() {
    let model = Mlp::new(&[1, 40, 40, 1], Activation::Relu, &mut Rngs::new(0));
    let optimizer = Optimizer::new(&model, adam(1e-3));
    train(["H", "H4"], model, optimizer, waves(), |model, x, y| {
        let loss = |model: &Mlp, x: &Tensor, y: &Tensor| mse(&model.forward(x), y);
        let each = vmap(|(x, y): (Tensor, Tensor)| {
            let (support, query) = (ix![..10], ix![10..]);
            let part = |model: &Mlp| loss(model, &x.index(support), &y.index(support));
            let gradient = grad(part)(&*model);
            let mut adapted = model.clone();
            Optimizer::new(model, sgd(0.01)).update(&mut adapted, &gradient);
            loss(&adapted, &x.index(query), &y.index(query))
        });
        each((x.clone(), y.clone())).mean()
    });
}

/// H6: each operation runs as it is called.
fn eager() {
    let mut model = mlp::model(&[64, 128, 128, 10]);
    let mut optimizer = Optimizer::new(&model, adam(1e-3));
    let x = |k: u64| Tensor::new([64, 64], workload::uniform(10 + k, 64 * 64, 1.0));
    let batches = (0..4).map(|k| (x(k), Tensor::from(workload::labels(20 + k, 64, 10))));
    let batches: Vec<(Tensor, Tensor)> = batches.collect();
    let mut batches = batches.iter().cycle();
    let advance = || {
        let (x, y) = batches.next().unwrap();
        let loss = |model: &Mlp| softmax_cross_entropy(&model.forward(x), y).mean();
        let (loss, gradient) = value_and_grad(loss)(&model);
        optimizer.update(&mut model, &gradient);
        loss
    };
    support::measure_steps(["H", "H6", "pytree"], advance, number);
}

/// H7: the first call traces and compiles a chain of products and sines.
fn first_call(workload: &str, equations: usize) {
    let function = jit(move |x: Tensor| (0..equations / 2).fold(x, |x, _| (x * 1.01).sin()));
    let x = Tensor::new([16], workload::uniform(10, 16, 1.0));
    let start = Instant::now();
    let sum = number(&function(x).sum());
    let elapsed = start.elapsed().as_secs_f64() * 1e3;
    report(workload, "first_call_ms", "ms", elapsed);
    report(workload, "sum", "", sum);
}

fn main() {
    let named = std::env::args().skip(1);
    let mut named: Vec<String> = named.filter(|it| !it.starts_with("--")).collect();
    if named.is_empty() {
        let all = [
            "H1", "H2", "H3", "H4", "H6", "H7-100", "H7-1000", "H7-10000",
        ];
        named = all.map(String::from).to_vec();
    }
    for case in &named {
        match (case.as_str(), case.strip_prefix("H7-")) {
            ("H1", _) => convolutional(),
            ("H2", _) => char_gpt(),
            ("H3", _) => gru(),
            ("H4", _) => maml(),
            ("H6", _) => eager(),
            (_, Some(equations)) => first_call(case, equations.parse().unwrap()),
            _ => panic!("expected H1, H2, H3, H4, H6 or H7-1000, found `{case}`"),
        }
    }
}
