//! A quantized weight of the size of those of GPT-2 is not widened: in a product, transposed, in the body of a loop, and where a model is
//! quantized or generates text.

use pytree::control::{cond, fori_loop, scan, while_loop};
use pytree::models::{GenerateOptions, Generator, Gpt2, Tokens};
use pytree::nn::{
    AttentionDirection, Embed, LayerNorm, LearnedPositions, MultiHeadAttentionOptions, Quantized,
    TransformerBlock, TransformerBlockOptions,
};
use pytree::prelude::*;

use crate::counting::peak;

/// The side of a weight, which takes 67 MB as f32.
const SIDE: usize = 4096;

type Weight = (Tensor, Tensor);

fn wide((integers, scales): &Weight) -> Tensor {
    integers.convert(DType::F32) * scales
}

/// A function of a vector and a weight, and its name.
type Named = (&'static str, fn(Tensor, &Weight) -> Tensor);

#[rustfmt::skip]
fn functions() -> Vec<Named> {
    vec![
        ("product", |x, weight| x.matmul(&wide(weight))),
        ("transposed", |x, weight| x.matmul(&wide(weight).t())),
        ("scan", |x, weight| {
            let weight = wide(weight);
            scan(|x: Tensor, _: Tensor| (x.matmul(&weight).tanh(), ()), x, Tensor::arange(DType::I32, 3)).0
        }),
        ("scan transposed", |x, weight| {
            let weight = wide(weight);
            scan(|x: Tensor, _: Tensor| (x.matmul(&weight.t()).tanh(), ()), x, Tensor::arange(DType::I32, 3)).0
        }),
        ("fori_loop", |x, weight| {
            let weight = wide(weight);
            fori_loop(0, 3, |_, x: Tensor| x.matmul(&weight).tanh(), x)
        }),
        ("while_loop", |x, weight| {
            let weight = wide(weight);
            while_loop(|x: &Tensor| x.abs().max().less(9.0), |x: Tensor| x.matmul(&weight) + x + 1.0, x)
        }),
        ("cond", |x, weight| {
            let weight = wide(weight);
            cond(&x.sum().less(0.0), |x: Tensor| x.matmul(&weight), |x| -x, x)
        }),
        ("call", |x, weight| {
            let weight = wide(weight);
            jit(|(x, weight): (Tensor, Tensor)| x.matmul(&weight))((x, weight))
        }),
    ]
}

fn numbers(dtype: DType, shape: [usize; 2]) -> Tensor {
    let count = shape[0] * shape[1];
    ((Tensor::arange(DType::I32, count).rem(255) - 127).convert(dtype)).reshape(shape)
}

/// Returns a vector, and a weight with as many rows and columns.
fn operands(side: usize) -> (Tensor, Weight) {
    let weight = (
        numbers(DType::I8, [side, side]),
        numbers(DType::F32, [1, side]) * 1e-6,
    );
    (numbers(DType::F32, [1, side]) * 0.01, weight)
}

pub(crate) fn products_read_integers() {
    let (small, large) = (operands(64), operands(SIDE));
    for (name, function) in functions() {
        let compiled = jit(move |(x, weight): (Tensor, Weight)| function(x, &weight));
        let (found, most) = peak(|| compiled(large.clone()));
        println!("{name}: {most} bytes for a weight of 67108864 bytes");
        assert!(most < 2 << 20, "{name}: {most}");
        let is_same = |found: &Tensor, (x, weight): &(Tensor, Weight)| {
            let expected = function(x.clone(), weight);
            found.info() == expected.info() && found.bytes() == expected.bytes()
        };
        assert!(is_same(&compiled(small.clone()), &small), "{name}");
        // Loops of large products without a program take long.
        if ["product", "transposed"].contains(&name) {
            assert!(is_same(&found, &large), "{name}");
        }
    }
}

/// A block of GPT-2, with its vocabulary.
fn gpt2() -> Gpt2 {
    let rngs = &mut Rngs::new(0);
    let attention = MultiHeadAttentionOptions {
        direction: AttentionDirection::Causal,
        ..MultiHeadAttentionOptions::default()
    };
    let options = TransformerBlockOptions {
        attention,
        ..TransformerBlockOptions::default()
    };
    // Random numbers would take most of the time.
    let mut tokens = Embed::new(1, 768, rngs);
    tokens.embedding = Tensor::full(DType::F32, [50257, 768], 0.02);
    Gpt2 {
        tokens,
        positions: LearnedPositions::new(1024, 768, rngs),
        blocks: vec![TransformerBlock::with_options(768, 12, options, rngs)],
        norm: LayerNorm::new(768, rngs),
    }
}

pub(crate) fn models_are_not_widened() {
    let gpt2 = gpt2();
    let (quantized, most) = peak(|| Quantized::new(&gpt2, &Filter::param()));
    let integers = quantized.integers.leaves().iter().map(|leaf| leaf.len());
    let scales = quantized.scales.leaves().iter().map(|leaf| 4 * leaf.len());
    let bytes: usize = integers.chain(scales).sum();
    println!("quantize: {most} bytes for {bytes} bytes of integers and scales");
    assert!(most < bytes + (2 << 20), "{most}");
    drop(gpt2);
    let options = GenerateOptions {
        max_tokens: 3,
        ..GenerateOptions::default()
    };
    let mut generator = Generator::new(&quantized, options).unwrap();
    let texts = Tokens::new(&[vec![464, 3139, 286]]);
    for call in ["first", "second"] {
        let (_, most) = peak(|| generator.generate(&texts).unwrap());
        println!("generate, {call} call: {most} bytes");
        // Before a step overwrites the caches, it tries whether half of its largest operand is granted: the integers of the embedding.
        assert!(most < 50257 * 768 / 2 + (4 << 20), "{most}");
    }
}
