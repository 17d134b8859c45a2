//! The transformers of the benchmarks: pre-norm blocks with causal attention. Case C4 has two blocks over 64 tokens of width
//! 256; the case for accelerators is larger.

use pytree::nn::{gelu, softmax};
use pytree::prelude::*;

use super::workload;

/// The lengths of the axes of a transformer and of its input.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sizes {
    pub batch: usize,
    pub tokens: usize,
    pub width: usize,
    pub heads: usize,
    pub hidden: usize,
    pub classes: usize,
    pub blocks: u64,
}

/// The sizes of case C4.
pub const C4: Sizes = Sizes {
    batch: 8,
    tokens: 64,
    width: 256,
    heads: 4,
    hidden: 1024,
    classes: 256,
    blocks: 2,
};

/// The sizes of the case `transformer`, for accelerators.
pub const LARGE: Sizes = Sizes {
    batch: 8,
    tokens: 512,
    width: 1024,
    heads: 16,
    hidden: 4096,
    classes: 256,
    blocks: 12,
};

#[derive(Module, Clone, Debug)]
pub struct Norm {
    #[param]
    scale: Tensor,
    #[param]
    shift: Tensor,
}

impl Norm {
    fn new(width: usize) -> Self {
        Self {
            scale: Tensor::ones(DType::F32, [width]),
            shift: Tensor::zeros(DType::F32, [width]),
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
    fn new(number: u64, sizes: Sizes) -> Self {
        let Sizes { width, hidden, .. } = sizes;
        Self {
            norm1: Norm::new(width),
            qkv: linear(4 * number, width, 3 * width),
            proj: linear(4 * number + 1, width, width),
            norm2: Norm::new(width),
            fc: linear(4 * number + 2, width, hidden),
            out: linear(4 * number + 3, hidden, width),
        }
    }

    fn attention(&self, x: &Tensor, masked: &Tensor, sizes: Sizes) -> Tensor {
        let Sizes {
            tokens,
            width,
            heads,
            ..
        } = sizes;
        // A device of a mesh has a part of the batch.
        let batch = x.shape()[0];
        let each = width / heads;
        // [batch, tokens, 3, heads, each] as [3, batch, heads, tokens, each].
        let qkv = self
            .qkv
            .forward(x)
            .reshape([batch, tokens, 3, heads, each])
            .transpose([2, 0, 3, 1, 4]);
        let part = |position: i32| qkv.index(pytree::ix![position]);
        let (q, k, v) = (part(0), part(1), part(2));
        let scores = q.matmul(&k.transpose([0, 1, 3, 2])) / (each as f64).sqrt();
        let low = Tensor::full(scores.dtype(), scores.shape(), -1e9);
        let scores = masked.select(&low, &scores);
        let mixed = softmax(&scores, -1).matmul(&v);
        let joined = mixed
            .transpose([0, 2, 1, 3])
            .reshape([batch, tokens, width]);
        self.proj.forward(&joined)
    }

    fn forward(&self, x: &Tensor, masked: &Tensor, sizes: Sizes) -> Tensor {
        let x = x + self.attention(&self.norm1.forward(x), masked, sizes);
        let inner = gelu(&self.fc.forward(&self.norm2.forward(&x)));
        &x + self.out.forward(&inner)
    }
}

#[derive(Module, Clone, Debug)]
pub struct Transformer {
    #[r#static]
    sizes: Sizes,
    blocks: Vec<Block>,
    norm: Norm,
    head: Linear,
}

impl Transformer {
    pub fn new(sizes: Sizes) -> Self {
        let layers = 4 * sizes.blocks;
        Self {
            sizes,
            blocks: (0..sizes.blocks)
                .map(|number| Block::new(number, sizes))
                .collect(),
            norm: Norm::new(sizes.width),
            head: linear(layers, sizes.width, sizes.classes),
        }
    }

    /// Logits `[batch × tokens, classes]` of `x`, `[batch, tokens, width]`.
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let Sizes {
            tokens,
            heads,
            classes,
            ..
        } = self.sizes;
        let batch = x.shape()[0];
        let position = Tensor::arange(DType::I32, tokens);
        let masked = position
            .expand_dims(1)
            .less(position.expand_dims(0))
            .broadcast_to([batch, heads, tokens, tokens]);
        let x = self
            .blocks
            .iter()
            .fold(x.clone(), |x, block| block.forward(&x, &masked, self.sizes));
        self.head
            .forward(&self.norm.forward(&x))
            .reshape([batch * tokens, classes])
    }
}
