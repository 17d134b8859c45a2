//! burn in the comparison: `peer-burn train C1` is a training step, `peer-burn digits` trains on digits, `peer-burn trees` measures
//! tree operations, and `peer-burn minilm FOLDER` and `peer-burn gpt2-train` are published models.

#![recursion_limit = "256"]

#[path = "../../cases.rs"]
mod cases;
mod published;
#[path = "../../../support/mod.rs"]
mod support;
mod trees;

use burn::module::{Module, Param};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{Gelu, LayerNorm, LayerNormConfig, Linear, Relu};
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::{Bool, Device, Int, Tensor, TensorData, activation};

use cases::{LEARNING_RATE, c4};

fn linear(layer: u64, inputs: usize, outputs: usize, device: &Device) -> Linear {
    let (weight, bias) = cases::linear(layer, inputs, outputs);
    Linear {
        weight: Param::from_data(TensorData::new(weight, [inputs, outputs]), device),
        bias: Some(Param::from_data(TensorData::new(bias, [outputs]), device)),
    }
}

#[derive(Module, Debug)]
struct Mlp {
    layers: Vec<Linear>,
    relu: Relu,
}

impl Mlp {
    fn new(sizes: [usize; 4], device: &Device) -> Self {
        let layer = |k: usize| linear(k as u64, sizes[k], sizes[k + 1], device);
        Self {
            layers: (0..3).map(layer).collect(),
            relu: Relu::new(),
        }
    }

    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let x = self.relu.forward(self.layers[0].forward(x));
        self.layers[2].forward(self.relu.forward(self.layers[1].forward(x)))
    }
}

#[derive(Module, Debug)]
struct Block {
    norm1: LayerNorm,
    qkv: Linear,
    proj: Linear,
    norm2: LayerNorm,
    fc: Linear,
    out: Linear,
    gelu: Gelu,
}

impl Block {
    fn new(b: u64, device: &Device) -> Self {
        use c4::{HIDDEN, WIDTH};
        Self {
            norm1: norm(device),
            qkv: linear(4 * b, WIDTH, 3 * WIDTH, device),
            proj: linear(4 * b + 1, WIDTH, WIDTH, device),
            norm2: norm(device),
            fc: linear(4 * b + 2, WIDTH, HIDDEN, device),
            out: linear(4 * b + 3, HIDDEN, WIDTH, device),
            gelu: Gelu::new_approximate(),
        }
    }

    fn forward(&self, x: Tensor<3>, mask: &Tensor<4, Bool>) -> Tensor<3> {
        use c4::{BATCH, EACH, HEADS, TOKENS, WIDTH};
        let qkv = self.qkv.forward(self.norm1.forward(x.clone()));
        let part = |k: usize| -> Tensor<4> {
            let part = qkv.clone().narrow(2, k * WIDTH, WIDTH);
            part.reshape([BATCH, TOKENS, HEADS, EACH]).swap_dims(1, 2)
        };
        let scores = part(0).matmul(part(1).swap_dims(2, 3)) / (EACH as f64).sqrt();
        let weights = activation::softmax(scores.mask_fill(mask.clone(), -1e9), 3);
        let mixed = weights.matmul(part(2)).swap_dims(1, 2);
        let x = x + self.proj.forward(mixed.reshape([BATCH, TOKENS, WIDTH]));
        let inner = self.fc.forward(self.norm2.forward(x.clone()));
        x + self.out.forward(self.gelu.forward(inner))
    }
}

fn norm(device: &Device) -> LayerNorm {
    LayerNormConfig::new(c4::WIDTH)
        .with_epsilon(c4::EPSILON)
        .init(device)
}

#[derive(Module, Debug)]
struct Transformer {
    blocks: Vec<Block>,
    norm: LayerNorm,
    head: Linear,
}

impl Transformer {
    fn new(device: &Device) -> Self {
        Self {
            blocks: (0..c4::BLOCKS).map(|b| Block::new(b, device)).collect(),
            norm: norm(device),
            head: linear(4 * c4::BLOCKS, c4::WIDTH, c4::CLASSES, device),
        }
    }

    fn forward(&self, x: Tensor<3>, mask: &Tensor<4, Bool>) -> Tensor<2> {
        let x = self
            .blocks
            .iter()
            .fold(x, |x, block| block.forward(x, mask));
        let logits = self.head.forward(self.norm.forward(x));
        logits.reshape([c4::BATCH * c4::TOKENS, c4::CLASSES])
    }
}

fn integers(labels: Vec<i32>, device: &Device) -> Tensor<1, Int> {
    let count = labels.len();
    Tensor::from_data(TensorData::new(labels, [count]), device)
}

/// Measures the steps of a model over four batches.
fn measure<M: Module + 'static, X>(
    case: &str,
    device: &Device,
    model: M,
    batches: Vec<(X, Tensor<1, Int>)>,
    forward: impl Fn(&M, &X) -> Tensor<2>,
) {
    let mut optimizer = AdamConfig::new().with_epsilon(1e-8).init();
    let loss_of = CrossEntropyLossConfig::new().init(device);
    let mut model = Some(model);
    let mut batches = batches.iter().cycle();
    let advance = || {
        let before = model.take().unwrap();
        let (x, y) = batches.next().unwrap();
        let loss = loss_of.forward(forward(&before, x), y.clone());
        let gradients = GradientsParams::from_grads(loss.backward(), &before);
        model = Some(optimizer.step(LEARNING_RATE, before, gradients));
        loss.inner()
    };
    let number = |loss: &Tensor<1>| f64::from(loss.clone().into_scalar::<f32>());
    support::measure_steps(["C", case, "burn"], advance, number);
}

fn train(case: &str) {
    let device = Device::flex().autodiff();
    if case == "C4" {
        use c4::{BATCH, CLASSES, HEADS, TOKENS, WIDTH};
        let batch = |k: u64| {
            let x = cases::uniform(10 + k, BATCH * TOKENS * WIDTH, 1.0);
            let x = Tensor::<3>::from_data(TensorData::new(x, [BATCH, TOKENS, WIDTH]), &device);
            (
                x,
                integers(
                    cases::labels(20 + k, BATCH * TOKENS, CLASSES as u64),
                    &device,
                ),
            )
        };
        let batches = (0..4).map(batch).collect();
        // True where a token would see a later one.
        let mask = Tensor::<2, Bool>::tril_mask([TOKENS, TOKENS], 0, &device)
            .reshape([1, 1, TOKENS, TOKENS])
            .expand([BATCH, HEADS, TOKENS, TOKENS]);
        let model = Transformer::new(&device);
        measure(case, &device, model, batches, |model, x: &Tensor<3>| {
            model.forward(x.clone(), &mask)
        });
    } else {
        let (sizes, rows) = cases::mlp(case);
        let batch = |k: u64| {
            let x = cases::uniform(10 + k, rows * sizes[0], 1.0);
            let x = Tensor::<2>::from_data(TensorData::new(x, [rows, sizes[0]]), &device);
            (x, integers(cases::labels(20 + k, rows, 10), &device))
        };
        let batches = (0..4).map(batch).collect();
        measure(
            case,
            &device,
            Mlp::new(sizes, &device),
            batches,
            |model, x: &Tensor<2>| model.forward(x.clone()),
        );
    }
}

fn digits() {
    let digits = cases::digits();
    let plain = Device::flex();
    let device = plain.clone().autodiff();
    let mut model = Mlp::new([64, 128, 128, 10], &device);
    let mut optimizer = AdamConfig::new().with_epsilon(1e-8).init();
    let loss_of = CrossEntropyLossConfig::new().init(&device);
    for rows in digits.batches() {
        let (x, y) = digits.part(&rows);
        let x = Tensor::<2>::from_data(TensorData::new(x, [64, 64]), &device);
        let loss = loss_of.forward(model.forward(x), integers(y, &device));
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        model = optimizer.step(LEARNING_RATE, model, gradients);
    }
    let rows = digits.test();
    let x = TensorData::new(digits.part(&rows).0, [rows.len(), 64]);
    let logits = model.valid().forward(Tensor::<2>::from_data(x, &plain));
    let found = logits
        .argmax(1)
        .reshape([rows.len()])
        .try_into_vec_as::<i64>();
    digits.print_accuracy(found.unwrap().into_iter().map(|digit| digit as i32));
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["train", case] => train(case),
        ["digits"] => digits(),
        ["minilm", folder] => published::minilm(folder),
        ["minilm-cold", folder] => published::minilm_cold(folder),
        ["gpt2-train"] => published::gpt2_train(),
        ["trees"] => trees::measure(),
        _ => panic!(
            "expected `train C1`, `digits`, `trees`, `minilm FOLDER`, `minilm-cold FOLDER` or `gpt2-train`, found {arguments:?}"
        ),
    }
}
