//! GPT-2 with 124 million parameters: `cargo bench --bench gpt2 --features models [-- train --bf16]`.
//!
//! | case | what is measured |
//! |---|---|
//! | `create` | the creation of the model on the host |
//! | `token` | a token with a cache of keys and values; the program reads each token before it computes the next one |
//! | `prompt` | the logits after the last token of a sequence |
//! | `train` | a training step: the loss, its gradient and an update of Adam |
//!
//! `--bf16` converts the model, and `--int8` quantizes its weights for `token`. `--save FILE` writes the parameters first, unless the
//! file is there. `--batch N` and `--length N` set the sequences and the tokens in each of them; by default,
//! `train` has 2 × 128 and `prompt` 1 × 128, and the cache of `token` has room for 1 × 256. `--pjrt` runs on the first device
//! of the plugin in `PYTREE_PJRT_PLUGIN` and needs `--features models,pjrt`. Prints the lines that `jax_gpt2.py` prints.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    reason = "a benchmark is read as a script"
)]

mod support;

use std::time::Instant;

use pytree::device::{Device, device_put};
use pytree::models::Gpt2;
use pytree::nn::{
    Embed, LayerNorm, LearnedPositions, Quantized, TransformerBlock, convert_floats, with_cache,
};
use pytree::optim::MixedPrecision;
use pytree::prelude::*;

const VOCABULARY: usize = 50257;
const POSITIONS: usize = 1024;
const WIDTH: usize = 768;
const HEADS: usize = 12;
const BLOCKS: usize = 12;

fn new() -> Gpt2 {
    let rngs = &mut Rngs::new(0);
    Gpt2 {
        tokens: Embed::new(VOCABULARY, WIDTH, rngs),
        positions: LearnedPositions::new(POSITIONS, WIDTH, rngs),
        blocks: (0..BLOCKS)
            .map(|_| TransformerBlock::causal(WIDTH, HEADS, rngs))
            .collect(),
        norm: LayerNorm::new(WIDTH, rngs),
    }
}

/// Returns the logits after the last token.
fn last(model: &mut Gpt2, tokens: &Tensor) -> Tensor {
    model.forward(tokens).index(ix![.., -1])
}

struct Setting {
    case: String,
    dtype: DType,
    is_int8: bool,
    batch: Option<usize>,
    length: Option<usize>,
    device: Device,
    peer: &'static str,
}

impl Setting {
    fn report(&self, operation: &str, unit: &str, median: f64, least: f64) {
        support::report(["K", &self.case, operation, self.peer], unit, median, least);
    }

    fn model(&self) -> Gpt2 {
        convert_floats(&new(), self.dtype)
    }

    /// Returns the number of sequences and their length.
    fn sizes(&self, batch: usize, length: usize) -> [usize; 2] {
        [self.batch.unwrap_or(batch), self.length.unwrap_or(length)]
    }

    /// Measures at most so many calls. `advance` starts a call, and `number` waits for its result.
    fn measure<R>(&self, most: usize, mut advance: impl FnMut() -> R, number: impl Fn(&R) -> f64) {
        let start = Instant::now();
        let first = number(&advance());
        let first_step = start.elapsed().as_secs_f64() * 1e3;
        self.report("result_step1", "", first, first);
        self.report("first_step_ms", "ms", first_step, first_step);
        number(&advance());
        let start = Instant::now();
        let fifth = number(&(0..3).map(|_| advance()).last().unwrap());
        self.report("result_step5", "", fifth, fifth);
        let count = support::samples(10);
        let inner = (0.1 / (start.elapsed().as_secs_f64() / 3.0)) as usize;
        let inner = inner.min((most - 5) / count).max(1);
        let sample = |_| {
            let start = Instant::now();
            number(&(0..inner).map(|_| advance()).last().unwrap());
            start.elapsed().as_secs_f64() * 1e6 / inner as f64
        };
        let mut times: Vec<f64> = (0..count).map(sample).collect();
        times.sort_by(f64::total_cmp);
        self.report("us_per_step", "us", times[count / 2], times[0]);
    }
}

fn number(tensor: &Tensor) -> f64 {
    tensor.to_host().convert(DType::F64).item()
}

/// Returns sequences of tokens, each with the token after each token.
fn text([batch, length]: [usize; 2]) -> (Tensor, Tensor) {
    let tokens = Tensor::arange(DType::I32, batch * length).reshape([batch, length]);
    let next = &tokens + 1;
    (tokens, next)
}

fn create(setting: &Setting) {
    setting.measure(usize::MAX, new, |model| {
        number(&model.norm.bias.as_ref().unwrap().index(ix![0]))
    });
}

fn token(setting: &Setting) {
    let [batch, length] = setting.sizes(1, 256);
    let decoder = with_cache(&setting.model(), [batch], length);
    if setting.is_int8 {
        let decoder = Quantized::new(&decoder, &Filter::param());
        decode(setting, decoder, |decoder, token| {
            decoder.with_model(|model| last(model, token))
        });
    } else {
        decode(setting, decoder, last);
    }
}

fn decode<M: Model>(setting: &Setting, decoder: M, last: fn(&mut M, &Tensor) -> Tensor) {
    let [batch, length] = setting.sizes(1, 256);
    let mut decoder = device_put(&decoder, &setting.device);
    let mut token = device_put(&Tensor::zeros(DType::I32, [batch, 1]), &setting.device);
    let step = jit_mut(move |(model, token): (&mut M, Tensor)| {
        let logits = last(model, &token);
        let next = logits.argmax_keep(-1).convert(DType::I32);
        (next, logits.max())
    });
    let step = step.on(&setting.device);
    let advance = || {
        let logit;
        (token, logit) = step((&mut decoder, token.clone()));
        token.to_vec::<i32>();
        logit
    };
    setting.measure(length, advance, number);
}

fn prompt(setting: &Setting) {
    let mut model = device_put(&setting.model(), &setting.device);
    let (tokens, _) = device_put(&text(setting.sizes(1, 128)), &setting.device);
    let forward = jit_mut(|(model, tokens): (&mut Gpt2, Tensor)| last(model, &tokens).max());
    let forward = forward.on(&setting.device);
    let advance = || number(&forward((&mut model, tokens.clone())));
    setting.measure(usize::MAX, advance, |logit| *logit);
}

/// The parameters and the states of Adam are f32, the forward pass and the gradients of activations have the dtype of the setting.
fn train(setting: &Setting) {
    let model = new();
    let precision = MixedPrecision {
        compute: setting.dtype,
        output: DType::F32,
    };
    let optimizer = Optimizer::new(&model, adam(1e-4));
    let state = (model, optimizer, text(setting.sizes(2, 128)));
    let (mut model, mut optimizer, (x, y)) = device_put(&state, &setting.device);
    drop(state);
    let step = jit_mut(
        move |(model, optimizer, x, y): (&mut Gpt2, &mut Optimizer<Gpt2>, Tensor, Tensor)| {
            let loss = |model: &mut Gpt2| {
                let logits = precision.compute_mut(model, |model| model.forward(&x));
                softmax_cross_entropy(&precision.output(&logits), &y).mean()
            };
            let (loss, gradient) = value_and_grad_mut(loss)(model);
            optimizer.update(model, &gradient);
            loss
        },
    );
    let step = step.on(&setting.device);
    let advance = || step((&mut model, &mut optimizer, x.clone(), y.clone()));
    setting.measure(usize::MAX, advance, number);
}

type Peak = Box<dyn Fn() -> Option<f64>>;

/// Returns the first device of the plugin, and a function that returns the most memory in MB that was in use.
#[cfg(feature = "pjrt")]
fn plugin() -> (Device, Peak) {
    let client = pytree::pjrt::Client::from_env().unwrap();
    let device = Device::from(&client);
    let peak = move || Some(client.devices()[0].memory()?.peak? as f64 / 1048576.0);
    (device, Box::new(peak))
}

#[cfg(not(feature = "pjrt"))]
fn plugin() -> (Device, Peak) {
    panic!("`--pjrt` needs `cargo bench --features models,pjrt`")
}

fn main() {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut value = |option: &str| {
        let at = arguments.iter().position(|it| it == option)?;
        Some(arguments.drain(at..at + 2).nth(1)?.parse().unwrap())
    };
    let (batch, length) = (value("--batch"), value("--length"));
    if let Some(at) = arguments.iter().position(|it| it == "--save") {
        let file = arguments.drain(at..at + 2).nth(1).unwrap();
        if !std::path::Path::new(&file).exists() {
            checkpoint::save(&file, &new()).unwrap();
        }
    }
    let has = |option: &str| arguments.iter().any(|it| it == option);
    let (dtype, suffix) = match (has("--bf16"), has("--int8")) {
        (true, _) => (DType::BF16, "-bf16"),
        (_, true) => (DType::F32, "-int8"),
        _ => (DType::F32, ""),
    };
    let (device, peak, peer) = match has("--pjrt").then(plugin) {
        Some((device, peak)) => (device, peak, "pytree-pjrt"),
        None => (Device::HOST, Box::new(|| None) as Peak, "pytree"),
    };
    let mut cases: Vec<&str> = arguments.iter().map(String::as_str).collect();
    cases.retain(|it| !it.starts_with("--"));
    if cases.is_empty() {
        cases = ["create", "token", "prompt", "train"].to_vec();
    }
    for case in cases {
        let setting = Setting {
            case: format!("{case}{suffix}"),
            dtype,
            is_int8: suffix == "-int8",
            batch,
            length,
            device: device.clone(),
            peer,
        };
        match case {
            "create" => create(&setting),
            "token" => token(&setting),
            "prompt" => prompt(&setting),
            "train" => train(&setting),
            _ => panic!("expected create, token, prompt or train, found `{case}`"),
        }
        if let Some(peak) = peak() {
            setting.report("device_peak_mb", "MB", peak, peak);
        }
    }
}
