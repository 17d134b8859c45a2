//! The transformer of case C4: two pre-norm blocks over 64 tokens of width 256.

use pytree::nn::{gelu, softmax};
use pytree::prelude::*;

use super::workload;

pub const BATCH: usize = 8;
pub const TOKENS: usize = 64;
pub const WIDTH: usize = 256;
pub const HEADS: usize = 4;
pub const HIDDEN: usize = 1024;
pub const CLASSES: usize = 256;

#[derive(Module, Clone, Debug)]
pub struct Norm {
    #[param]
    scale: Tensor,
    #[param]
    shift: Tensor,
}

impl Norm {
    fn new() -> Self {
        Self {
            scale: Tensor::ones(DType::F32, [WIDTH]),
            shift: Tensor::zeros(DType::F32, [WIDTH]),
        }
    }

    fn forward(&self, x: &Tensor) -> Tensor {
        let centred = x - x.mean_keep([-1]);
        let variance = centred.square().mean_keep([-1]);
        centred / (variance + 1e-5).sqrt() * &self.scale + &self.shift
    }
}

#[derive(Module, Clone, Debug)]
pub struct Block {
    norm1: Norm,
    qkv: Linear,
    proj: Linear,
    norm2: Norm,
    fc: Linear,
    out: Linear,
}

fn linear(layer: u64, inputs: usize, outputs: usize) -> Linear {
    let (weight, bias) = workload::linear(layer, inputs, outputs);
    let mut linear = Linear::new(inputs, outputs, &mut Rngs::new(0));
    linear.weight = Tensor::new([inputs, outputs], weight);
    linear.bias = Some(Tensor::from(bias));
    linear
}

impl Block {
    fn new(number: u64) -> Self {
        Self {
            norm1: Norm::new(),
            qkv: linear(4 * number, WIDTH, 3 * WIDTH),
            proj: linear(4 * number + 1, WIDTH, WIDTH),
            norm2: Norm::new(),
            fc: linear(4 * number + 2, WIDTH, HIDDEN),
            out: linear(4 * number + 3, HIDDEN, WIDTH),
        }
    }

    fn attention(&self, x: &Tensor, hidden: &Tensor) -> Tensor {
        let each = WIDTH / HEADS;
        // [batch, tokens, 3, heads, each] as [3, batch, heads, tokens, each].
        let qkv = self
            .qkv
            .forward(x)
            .reshape([BATCH, TOKENS, 3, HEADS, each])
            .transpose([2, 0, 3, 1, 4]);
        let part = |position: i32| qkv.index(pytree::ix![position]);
        let (q, k, v) = (part(0), part(1), part(2));
        let scores = q.matmul(&k.transpose([0, 1, 3, 2])) / (each as f64).sqrt();
        let scores = hidden.select(
            &Tensor::from(-1e9_f32).broadcast_to(scores.shape()),
            &scores,
        );
        let mixed = softmax(&scores, -1).matmul(&v);
        let joined = mixed
            .transpose([0, 2, 1, 3])
            .reshape([BATCH, TOKENS, WIDTH]);
        self.proj.forward(&joined)
    }

    fn forward(&self, x: &Tensor, hidden: &Tensor) -> Tensor {
        let x = x + self.attention(&self.norm1.forward(x), hidden);
        let inner = gelu(&self.fc.forward(&self.norm2.forward(&x)));
        &x + self.out.forward(&inner)
    }
}

#[derive(Module, Clone, Debug)]
pub struct Transformer {
    blocks: Vec<Block>,
    norm: Norm,
    head: Linear,
}

impl Transformer {
    pub fn new() -> Self {
        Self {
            blocks: vec![Block::new(0), Block::new(1)],
            norm: Norm::new(),
            head: linear(8, WIDTH, CLASSES),
        }
    }

    /// Logits `[BATCH × TOKENS, CLASSES]` of `x`, `[BATCH, TOKENS, WIDTH]`.
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let position = Tensor::arange(DType::I32, TOKENS);
        let hidden = position
            .expand_dims(1)
            .less(position.expand_dims(0))
            .broadcast_to([BATCH, HEADS, TOKENS, TOKENS]);
        let x = self
            .blocks
            .iter()
            .fold(x.clone(), |x, block| block.forward(&x, &hidden));
        self.head
            .forward(&self.norm.forward(&x))
            .reshape([BATCH * TOKENS, CLASSES])
    }
}
