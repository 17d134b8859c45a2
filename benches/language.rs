//! Language models: `cargo bench --bench language --features models -- --model llama [train --bf16]`.
//!
//! | model | what it is |
//! |---|---|
//! | `gpt2` | GPT-2 with 124 million parameters, the default |
//! | `llama` | Llama with the sizes of SmolLM2-135M |
//!
//! | case | what is measured |
//! |---|---|
//! | `create` | the creation of the model on the host |
//! | `token` | a token with a cache of keys and values; the program reads each token before it computes the next one |
//! | `prompt` | the logits after the last token of a sequence |
//! | `train` | a training step: the loss, its gradient and an update of Adam |
//!
//! `--bf16` converts the model, and `--int8` quantizes its weights for `token`. `--save FILE` writes the parameters first, unless the
//! file is there: those of Llama with the names of transformers. `--batch N` and `--length N` set the sequences and the tokens in each
//! of them; by default, `train` has 2 × 128 and `prompt` 1 × 128, and the cache of `token` has room for 1 × 256. `--pjrt` runs on the
//! first device of the plugin in `PYTREE_PJRT_PLUGIN` and needs `--features models,pjrt`. Prints the lines that `jax_language.py` prints.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    reason = "a benchmark is read as a script"
)]

mod support;

use pytree::checkpoint::{SaveOptions, save_with};
use pytree::device::{Device, device_put};
use pytree::models::{Gpt2, LanguageModel, Llama, LlamaBlock};
use pytree::nn::{
    AttentionDirection, Embed, LayerNorm, LearnedPositions, LinearOptions,
    MultiHeadAttentionOptions, NormOptions, Quantized, RmsNorm, TransformerBlock, convert_floats,
};
use pytree::optim::MixedPrecision;
use pytree::prelude::*;

/// A model that is measured. Its parameters are drawn from the keys of `jax_language.py`.
trait Measured: LanguageModel + 'static {
    const NAME: &'static str;

    fn new() -> Self;

    /// Returns a number of the last layer, after which all parameters have been drawn.
    fn last_number(&self) -> f64;

    /// Returns how the file is written that `torch_language.py` and candle read.
    fn file(&self) -> SaveOptions {
        SaveOptions::new()
    }
}

impl Measured for Gpt2 {
    const NAME: &'static str = "gpt2";

    fn new() -> Self {
        let rngs = &mut Rngs::new(0);
        Self {
            tokens: Embed::new(50257, 768, rngs),
            positions: LearnedPositions::new(1024, 768, rngs),
            blocks: (0..12)
                .map(|_| TransformerBlock::causal(768, 12, rngs))
                .collect(),
            norm: LayerNorm::new(768, rngs),
        }
    }

    fn last_number(&self) -> f64 {
        number(&self.norm.bias.as_ref().unwrap().index(ix![0]))
    }
}

impl Measured for Llama {
    const NAME: &'static str = "llama";

    fn new() -> Self {
        let rngs = &mut Rngs::new(0);
        let linear = LinearOptions {
            bias_init: None,
            ..LinearOptions::default()
        };
        let norm = NormOptions {
            epsilon: Some(1e-5),
            ..NormOptions::default()
        };
        let attention = MultiHeadAttentionOptions {
            kv_heads: Some(3),
            direction: AttentionDirection::Causal,
            rotary_base: Some(1e5),
            linear,
            ..MultiHeadAttentionOptions::default()
        };
        Self {
            tokens: Embed::new(49152, 576, rngs),
            blocks: (0..30)
                .map(|_| LlamaBlock::new([576, 9, 1536], attention, norm, linear, rngs))
                .collect(),
            norm: RmsNorm::with_options(576, norm, rngs),
            head: None,
        }
    }

    fn last_number(&self) -> f64 {
        number(&self.norm.scale.as_ref().unwrap().index(ix![0]))
    }

    fn file(&self) -> SaveOptions {
        SaveOptions::new().names(self.names())
    }
}

/// Returns the logits after the last token.
fn last(model: &mut impl LanguageModel, tokens: &Tensor) -> Tensor {
    let features = model.features(tokens).index(ix![.., -1]);
    model.logits(&features)
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
    /// Returns the number of sequences and their length.
    fn sizes(&self, batch: usize, length: usize) -> [usize; 2] {
        [self.batch.unwrap_or(batch), self.length.unwrap_or(length)]
    }

    /// Measures at most so many calls. `advance` starts a call, and `number` waits for its result.
    fn measure<R>(&self, most: usize, advance: impl FnMut() -> R, number: impl Fn(&R) -> f64) {
        let names = ["K", &self.case, self.peer];
        support::measure_calls(names, most, advance, |result| Some(number(result)));
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

fn create<M: Measured>(setting: &Setting) {
    setting.measure(usize::MAX, M::new, M::last_number);
}

fn token<M: Measured>(setting: &Setting) {
    let model = convert_floats(&M::new(), setting.dtype);
    if setting.is_int8 {
        decode(setting, Quantized::new(&model, &Filter::param()));
    } else {
        decode(setting, model);
    }
}

fn decode<M: LanguageModel + 'static>(setting: &Setting, model: M) {
    let [batch, length] = setting.sizes(1, 256);
    let mut decoder = device_put(&model.with_cache(&[batch], length), &setting.device);
    drop(model);
    let mut token = device_put(&Tensor::zeros(DType::I32, [batch, 1]), &setting.device);
    let step = jit_mut(|(model, token): (&mut M, Tensor)| {
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

fn prompt<M: Measured>(setting: &Setting) {
    let model = convert_floats(&M::new(), setting.dtype);
    let mut model = device_put(&model, &setting.device);
    let (tokens, _) = device_put(&text(setting.sizes(1, 128)), &setting.device);
    let forward = jit_mut(|(model, tokens): (&mut M, Tensor)| last(model, &tokens).max());
    let forward = forward.on(&setting.device);
    let advance = || number(&forward((&mut model, tokens.clone())));
    setting.measure(usize::MAX, advance, |logit| *logit);
}

/// The parameters and the states of Adam are f32, the forward pass and the gradients of activations have the dtype of the setting.
fn train<M: Measured>(setting: &Setting) {
    let model = M::new();
    let precision = MixedPrecision {
        compute: setting.dtype,
        output: DType::F32,
    };
    let optimizer = Optimizer::new(&model, adam(1e-4));
    let state = (model, optimizer, text(setting.sizes(2, 128)));
    let (mut model, mut optimizer, (x, y)) = device_put(&state, &setting.device);
    drop(state);
    let step = jit_mut(
        move |(model, optimizer, x, y): (&mut M, &mut Optimizer<M>, Tensor, Tensor)| {
            let loss = |model: &mut M| {
                let logits = precision.compute_mut(model, |model| {
                    let features = model.features(&x);
                    model.logits(&features)
                });
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
    match value(&mut arguments, "--model").as_deref() {
        None | Some("gpt2") => run::<Gpt2>(arguments),
        Some("llama") => run::<Llama>(arguments),
        Some(name) => panic!("expected the model gpt2 or llama, found `{name}`"),
    }
}

/// Removes an option, and returns its value.
fn value(arguments: &mut Vec<String>, option: &str) -> Option<String> {
    let at = arguments.iter().position(|it| it == option)?;
    arguments.drain(at..at + 2).nth(1)
}

fn run<M: Measured>(mut arguments: Vec<String>) {
    let [batch, length] = ["--batch", "--length"]
        .map(|option| value(&mut arguments, option).map(|size| size.parse().unwrap()));
    if let Some(file) = value(&mut arguments, "--save")
        && !std::path::Path::new(&file).exists()
    {
        let model = M::new();
        save_with(&file, &model, &model.file()).unwrap();
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
            case: format!("{}-{case}{suffix}", M::NAME),
            dtype,
            is_int8: suffix == "-int8",
            batch,
            length,
            device: device.clone(),
            peer,
        };
        match case {
            "create" => create::<M>(&setting),
            "token" => token::<M>(&setting),
            "prompt" => prompt::<M>(&setting),
            "train" => train::<M>(&setting),
            _ => panic!("expected create, token, prompt or train, found `{case}`"),
        }
        if let Some(peak) = peak() {
            let names = ["K", &setting.case, "device_peak_mb", peer];
            support::report(names, "MB", peak, peak);
        }
    }
}
