//! Training steps of networks beside torch: `cargo bench --bench networks [-- unet]`.
//!
//! | case | network |
//! |---|---|
//! | `vit` | a vision transformer with the exact GELU: 6 blocks of width 192, 32 images of 32 × 32 pixels in 64 patches |
//! | `unet` | convolutions with strides and their transposes, of 32 and 64 features, with group normalisations, 8 images of 64 × 64 |
//! | `lstm` | a language model with an LSTM of width 256, 32 texts of 64 tokens, of 1,000 kinds |
//! | `decoder` | a causal language model: 2 blocks of width 512 with 8 heads, a text of 1,024 tokens, of 1,000 kinds |
//! | `decoder_bf16` | the same, whose activations are bf16 |
//! | `table` | twenty embeddings of categories, and linear layers with batch normalisations, 512 rows |
//! | `rows_sgd`, `rows_adagrad`, `rows_adam` | a table of a million rows of 32 numbers; 81,920 of them are read, and only these are updated |
//! | `rows_sgd_10m` | the same with ten million rows, if it is named |
//!
//! `--save FOLDER` writes the parameters of each network under the names that `torch_networks.py` reads.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    reason = "a benchmark is read as a script"
)]

#[path = "support/steps.rs"]
mod steps;
mod support;
#[allow(dead_code, reason = "not every case uses all of the data")]
#[path = "../examples/digits/workload.rs"]
mod workload;

use pytree::SelectPart;
use pytree::checkpoint::{SaveOptions, WeightNames, save_with};
use pytree::nn::{
    BatchNorm, Conv, ConvOptions, ConvPadding, ConvTranspose, ConvTransposeOptions, Embed,
    GroupNorm, LayerNorm, LearnedPositions, LstmCell, Rnn, TransformerBlock,
    TransformerBlockOptions,
};
use pytree::optim::{Chain, MixedPrecision, adagrad, lazy_adam};
use pytree::prelude::*;
use pytree::transform::Traceable;

use steps::texts;

type Batches = Vec<(Tensor, Tensor)>;

/// Writes the parameters of a network into the folder.
fn save<M: Module>(case: &str, folder: Option<&str>, model: &M) {
    if let Some(folder) = folder {
        let names = WeightNames::pytorch()
            .rename("lstm.weight_ih_l0", "rnn.cell.input")
            .rename("lstm.weight_hh_l0", "rnn.cell.recurrent")
            .sum(["lstm.bias_ih_l0", "lstm.bias_hh_l0"], "rnn.cell.bias");
        let file = format!("{folder}/{case}.safetensors");
        save_with(file, model, &SaveOptions::new().names(names)).unwrap();
    }
}

/// Measures the training of a network by Adam, and writes its parameters into the folder first.
fn train<M: Module + Traceable + SelectPart<Tensor> + Clone + 'static>(
    case: &str,
    folder: Option<&str>,
    model: M,
    batches: Batches,
    loss: fn(&mut M, &Tensor, &Tensor) -> Tensor,
) {
    save(case, folder, &model);
    let optimizer = Optimizer::new(&model, adam(1e-3));
    steps::train(["L", case], model, optimizer, batches, loss);
}

fn images(batch: usize, size: usize, stream: u64) -> Tensor {
    let elements = workload::uniform(stream, batch * size * size * 3, 1.0);
    Tensor::new([batch, size, size, 3], elements)
}

#[derive(Module, Clone)]
struct Vit {
    patches: Conv,
    positions: LearnedPositions,
    blocks: Vec<TransformerBlock>,
    norm: LayerNorm,
    head: Linear,
}

fn vit(folder: Option<&str>) {
    let rngs = &mut Rngs::new(0);
    let patches = ConvOptions {
        strides: 4.into(),
        padding: ConvPadding::Valid,
        ..ConvOptions::default()
    };
    let block = TransformerBlockOptions {
        activation: Activation::GeluExact,
        ..TransformerBlockOptions::default()
    };
    let model = Vit {
        patches: Conv::with_options(3, 192, [4, 4], patches, rngs),
        positions: LearnedPositions::new(64, 192, rngs),
        blocks: (0..6)
            .map(|_| TransformerBlock::with_options(192, 3, block, rngs))
            .collect(),
        norm: LayerNorm::new(192, rngs),
        head: Linear::new(192, 10, rngs),
    };
    let batch = |k: u64| {
        (
            images(32, 32, 10 + k),
            Tensor::from(workload::labels(20 + k, 32, 10)),
        )
    };
    train(
        "vit",
        folder,
        model,
        (0..4).map(batch).collect(),
        |model, x, y| {
            let patches = model.patches.forward(x).reshape([32, 64, 192]);
            let mut x = model.positions.forward(&patches);
            for block in &mut model.blocks {
                x = block.forward(&x);
            }
            let logits = model.head.forward(&model.norm.forward(&x).mean_axes([1]));
            softmax_cross_entropy(&logits, y).mean()
        },
    );
}

#[derive(Module, Clone)]
struct Unet {
    first: (Conv, GroupNorm),
    down: (Conv, GroupNorm),
    middle: (Conv, GroupNorm),
    up: ConvTranspose,
    joined: (Conv, GroupNorm),
    last: Conv,
}

fn unet(folder: Option<&str>) {
    let rngs = &mut Rngs::new(0);
    let mut layer = |inputs: usize, outputs: usize, stride: usize| {
        let options = ConvOptions {
            strides: stride.into(),
            padding: ConvPadding::from([(1, 1); 2]),
            ..ConvOptions::default()
        };
        let conv = Conv::with_options(inputs, outputs, [3, 3], options, rngs);
        (conv, GroupNorm::new(outputs, 8, rngs))
    };
    let (first, down, middle) = (layer(3, 32, 1), layer(32, 64, 2), layer(64, 64, 1));
    let joined = layer(64, 32, 1);
    let up = ConvTransposeOptions {
        strides: 2.into(),
        padding: ConvPadding::Valid,
        ..ConvTransposeOptions::default()
    };
    let model = Unet {
        first,
        down,
        middle,
        up: ConvTranspose::with_options(64, 32, [2, 2], up, rngs),
        joined,
        last: Conv::new(32, 3, [1, 1], rngs),
    };
    let batch = |k: u64| (images(8, 64, 10 + k), images(8, 64, 20 + k));
    train(
        "unet",
        folder,
        model,
        (0..4).map(batch).collect(),
        |model, x, y| {
            let layer = |(conv, norm): &(Conv, GroupNorm), x: &Tensor| {
                norm.forward(&conv.forward(x)).relu()
            };
            let first = layer(&model.first, x);
            let middle = layer(&model.middle, &layer(&model.down, &first));
            let joined = Tensor::concatenate(&[first, model.up.forward(&middle)], -1);
            mse(&model.last.forward(&layer(&model.joined, &joined)), y)
        },
    );
}

#[derive(Module, Clone)]
struct Language {
    tokens: Embed,
    rnn: Rnn<LstmCell>,
    head: Linear,
}

fn lstm(folder: Option<&str>) {
    let rngs = &mut Rngs::new(0);
    let model = Language {
        tokens: Embed::new(1000, 256, rngs),
        rnn: Rnn::new(LstmCell::new(256, 256, rngs)),
        head: Linear::new(256, 1000, rngs),
    };
    train("lstm", folder, model, texts(32, 64, 1000), |model, x, y| {
        let states = model.rnn.forward(&model.tokens.forward(x));
        softmax_cross_entropy(&model.head.forward(&states), y).mean()
    });
}

#[derive(Module, Clone)]
struct Decoder {
    tokens: Embed,
    positions: LearnedPositions,
    blocks: Vec<TransformerBlock>,
    norm: LayerNorm,
    head: Linear,
}

impl Decoder {
    fn new() -> Self {
        let rngs = &mut Rngs::new(0);
        Self {
            tokens: Embed::new(1000, 512, rngs),
            positions: LearnedPositions::new(1024, 512, rngs),
            blocks: (0..2)
                .map(|_| TransformerBlock::causal(512, 8, rngs))
                .collect(),
            norm: LayerNorm::new(512, rngs),
            head: Linear::new(512, 1000, rngs),
        }
    }

    fn forward(&mut self, x: &Tensor) -> Tensor {
        let mut x = self.positions.forward(&self.tokens.forward(x));
        for block in &mut self.blocks {
            x = block.forward(&x);
        }
        self.head.forward(&self.norm.forward(&x))
    }
}

fn decoder(folder: Option<&str>) {
    let loss = |model: &mut Decoder, x: &Tensor, y: &Tensor| {
        softmax_cross_entropy(&model.forward(x), y).mean()
    };
    let texts = texts(1, 1024, 1000);
    train("decoder", folder, Decoder::new(), texts, loss);
}

fn decoder_bf16(folder: Option<&str>) {
    let loss = |model: &mut Decoder, x: &Tensor, y: &Tensor| {
        let precision = MixedPrecision {
            compute: DType::BF16,
            output: DType::F32,
        };
        let logits = precision.compute_mut(model, |model| model.forward(x));
        softmax_cross_entropy(&precision.output(&logits), y).mean()
    };
    let texts = texts(1, 1024, 1000);
    train("decoder_bf16", folder, Decoder::new(), texts, loss);
}

#[derive(Module, Clone)]
struct Table {
    columns: Vec<Embed>,
    norms: Vec<BatchNorm>,
    layers: Vec<Linear>,
}

fn table(folder: Option<&str>) {
    let rngs = &mut Rngs::new(0);
    let model = Table {
        columns: (0..20).map(|_| Embed::new(50, 8, rngs)).collect(),
        norms: [160, 256, 256]
            .map(|width| BatchNorm::new(width, rngs))
            .into(),
        layers: [(160, 256), (256, 256), (256, 10)]
            .map(|(inputs, outputs)| Linear::new(inputs, outputs, rngs))
            .into(),
    };
    let batch = |k: u64| {
        let categories = workload::labels(10 + k, 512 * 20, 50);
        let classes = workload::labels(20 + k, 512, 10);
        (Tensor::new([512, 20], categories), Tensor::from(classes))
    };
    train(
        "table",
        folder,
        model,
        (0..4).map(batch).collect(),
        |model, x, y| {
            let columns = model.columns.iter().enumerate();
            let columns: Vec<Tensor> = columns
                .map(|(place, column)| column.forward(&x.index(ix![.., place as isize])))
                .collect();
            let mut x = Tensor::concatenate(&columns, -1);
            for (place, (norm, layer)) in model.norms.iter_mut().zip(&model.layers).enumerate() {
                x = layer.forward(&norm.forward(&x));
                if place < 2 {
                    x = x.relu();
                }
            }
            softmax_cross_entropy(&x, y).mean()
        },
    );
}

#[derive(Module, Clone)]
struct Bags {
    rows: Embed,
}

/// Measures a table of whose rows each step reads 20 for each of 4,096 examples.
fn rows(case: &str, folder: Option<&str>, length: usize, optimizer: Chain) {
    let model = Bags {
        rows: Embed::new(length, 32, &mut Rngs::new(0)),
    };
    save(case, folder, &model);
    let batch = |k: u64| {
        let ids = workload::labels(10 + k, 4096 * 20, length as u64);
        let targets = workload::uniform(20 + k, 4096 * 32, 1.0);
        (
            Tensor::new([4096, 20], ids),
            Tensor::new([4096, 32], targets),
        )
    };
    let optimizer = Optimizer::new(&model, optimizer);
    let batches = (0..4).map(batch).collect();
    steps::train(["L", case], model, optimizer, batches, |model, x, y| {
        mse(&model.rows.forward(x).sum_axes([1]), y)
    });
}

type Run = fn(&str, Option<&str>);

const MILLION: usize = 1_000_000;

const CASES: [(&str, Run); 10] = [
    ("vit", |_, folder| vit(folder)),
    ("unet", |_, folder| unet(folder)),
    ("lstm", |_, folder| lstm(folder)),
    ("decoder", |_, folder| decoder(folder)),
    ("decoder_bf16", |_, folder| decoder_bf16(folder)),
    ("table", |_, folder| table(folder)),
    ("rows_sgd", |case, folder| {
        rows(case, folder, MILLION, sgd(1.0));
    }),
    ("rows_adagrad", |case, folder| {
        rows(case, folder, MILLION, adagrad(0.1));
    }),
    ("rows_adam", |case, folder| {
        rows(case, folder, MILLION, lazy_adam(1e-3));
    }),
    ("rows_sgd_10m", |case, folder| {
        rows(case, folder, 10 * MILLION, sgd(1.0));
    }),
];

fn main() {
    let mut named: Vec<String> = std::env::args().skip(1).collect();
    let save = named.iter().position(|it| it == "--save");
    let folder = save.map(|at| named.drain(at..at + 2).nth(1).unwrap());
    named.retain(|it| !it.starts_with("--"));
    if named.is_empty() {
        named = CASES.map(|(case, _)| case.to_owned()).to_vec();
        named.retain(|case| case != "rows_sgd_10m");
    }
    for case in &named {
        let found = CASES.iter().find(|(name, _)| name == case);
        let (_, run) = found.unwrap_or_else(|| panic!("no case `{case}`"));
        run(case, folder.as_deref());
    }
}
