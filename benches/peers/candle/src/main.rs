//! candle in the comparison: `peer-candle train C1` is a training step, `peer-candle digits` trains on digits, and `peer-candle minilm
//! FOLDER` and `peer-candle llama token` are published models.

#[path = "../../cases.rs"]
mod cases;
mod published;
#[path = "../../../support/mod.rs"]
mod support;

use candle_core::{D, DType, Device, Result, Tensor, Var};
use candle_nn::{AdamW, Linear, Module, Optimizer, ParamsAdamW, loss, ops};

use cases::{LEARNING_RATE, c4};

const CPU: Device = Device::Cpu;

/// Creates a linear layer, and adds its variables. candle keeps the weight as `[outputs, inputs]`.
fn linear(variables: &mut Vec<Var>, layer: u64, inputs: usize, outputs: usize) -> Result<Linear> {
    let (weight, bias) = cases::linear(layer, inputs, outputs);
    let weight = Tensor::from_vec(weight, (inputs, outputs), &CPU)?;
    let weight = Var::from_tensor(&weight.t()?.contiguous()?)?;
    let bias = Var::from_tensor(&Tensor::from_vec(bias, outputs, &CPU)?)?;
    variables.extend([weight.clone(), bias.clone()]);
    let (weight, bias) = (weight.as_tensor().clone(), bias.as_tensor().clone());
    Ok(Linear::new(weight, Some(bias)))
}

struct Mlp([Linear; 3]);

impl Mlp {
    fn new(variables: &mut Vec<Var>, sizes: [usize; 4]) -> Result<Self> {
        let mut layer = |k: usize| linear(variables, k as u64, sizes[k], sizes[k + 1]);
        Ok(Self([layer(0)?, layer(1)?, layer(2)?]))
    }

    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = self.0[0].forward(x)?.relu()?;
        self.0[2].forward(&self.0[1].forward(&x)?.relu()?)
    }
}

/// `candle_nn::LayerNorm` 0.11 has no backward pass for contiguous inputs.
struct Norm {
    scale: Tensor,
    shift: Tensor,
}

impl Norm {
    fn new(variables: &mut Vec<Var>) -> Result<Self> {
        let scale = Var::from_tensor(&Tensor::ones(c4::WIDTH, DType::F32, &CPU)?)?;
        let shift = Var::from_tensor(&Tensor::zeros(c4::WIDTH, DType::F32, &CPU)?)?;
        variables.extend([scale.clone(), shift.clone()]);
        let (scale, shift) = (scale.as_tensor().clone(), shift.as_tensor().clone());
        Ok(Self { scale, shift })
    }

    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let centred = x.broadcast_sub(&x.mean_keepdim(D::Minus1)?)?;
        let variance = centred.sqr()?.mean_keepdim(D::Minus1)?;
        let normalised = centred.broadcast_div(&(variance + c4::EPSILON)?.sqrt()?)?;
        normalised
            .broadcast_mul(&self.scale)?
            .broadcast_add(&self.shift)
    }
}

struct Block {
    norm1: Norm,
    qkv: Linear,
    proj: Linear,
    norm2: Norm,
    fc: Linear,
    out: Linear,
}

struct Transformer {
    blocks: Vec<Block>,
    norm: Norm,
    head: Linear,
    /// Added to the scores: -1e9 where a token would see a later one.
    mask: Tensor,
}

impl Transformer {
    fn new(variables: &mut Vec<Var>) -> Result<Self> {
        use c4::{BLOCKS, CLASSES, HIDDEN, TOKENS, WIDTH};
        let mut block = |b: u64| {
            Ok(Block {
                norm1: Norm::new(variables)?,
                qkv: linear(variables, 4 * b, WIDTH, 3 * WIDTH)?,
                proj: linear(variables, 4 * b + 1, WIDTH, WIDTH)?,
                norm2: Norm::new(variables)?,
                fc: linear(variables, 4 * b + 2, WIDTH, HIDDEN)?,
                out: linear(variables, 4 * b + 3, HIDDEN, WIDTH)?,
            })
        };
        let blocks = (0..BLOCKS).map(&mut block).collect::<Result<_>>()?;
        let is_later = |k: usize| k % TOKENS > k / TOKENS;
        let mask = (0..TOKENS * TOKENS).map(|k| if is_later(k) { -1e9_f32 } else { 0.0 });
        Ok(Self {
            blocks,
            norm: Norm::new(variables)?,
            head: linear(variables, 4 * BLOCKS, WIDTH, CLASSES)?,
            mask: Tensor::from_vec(mask.collect(), (1, 1, TOKENS, TOKENS), &CPU)?,
        })
    }

    fn attention(&self, block: &Block, x: &Tensor) -> Result<Tensor> {
        use c4::{BATCH, EACH, HEADS, TOKENS, WIDTH};
        let qkv = block.qkv.forward(x)?;
        let part = |k: usize| {
            let part = qkv.narrow(2, k * WIDTH, WIDTH)?;
            part.reshape((BATCH, TOKENS, HEADS, EACH))?
                .transpose(1, 2)?
                .contiguous()
        };
        let (q, k, v) = (part(0)?, part(1)?, part(2)?);
        let scores = (q.matmul(&k.transpose(2, 3)?.contiguous()?)? / (EACH as f64).sqrt())?;
        let weights = ops::softmax(&scores.broadcast_add(&self.mask)?, D::Minus1)?;
        let mixed = weights.matmul(&v)?.transpose(1, 2)?.contiguous()?;
        block.proj.forward(&mixed.reshape((BATCH, TOKENS, WIDTH))?)
    }

    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let mut x = x.clone();
        for block in &self.blocks {
            x = (&x + self.attention(block, &block.norm1.forward(&x)?)?)?;
            let inner = block.fc.forward(&block.norm2.forward(&x)?)?.gelu()?;
            x = (&x + block.out.forward(&inner)?)?;
        }
        let logits = self.head.forward(&self.norm.forward(&x)?)?;
        logits.reshape((c4::BATCH * c4::TOKENS, c4::CLASSES))
    }
}

fn adam(variables: Vec<Var>) -> Result<AdamW> {
    let parameters = ParamsAdamW {
        lr: LEARNING_RATE,
        beta1: 0.9,
        beta2: 0.999,
        eps: 1e-8,
        weight_decay: 0.0,
    };
    AdamW::new(variables, parameters)
}

fn train(case: &str) -> Result<()> {
    let mut variables = Vec::new();
    let (shape, rows, classes) = if case == "C4" {
        (
            vec![c4::BATCH, c4::TOKENS, c4::WIDTH],
            c4::BATCH * c4::TOKENS,
            c4::CLASSES as u64,
        )
    } else {
        let (sizes, batch) = cases::mlp(case);
        (vec![batch, sizes[0]], batch, 10)
    };
    type Forward = Box<dyn Fn(&Tensor) -> Result<Tensor>>;
    let forward: Forward = if case == "C4" {
        let model = Transformer::new(&mut variables)?;
        Box::new(move |x| model.forward(x))
    } else {
        let model = Mlp::new(&mut variables, cases::mlp(case).0)?;
        Box::new(move |x| model.forward(x))
    };
    let batch = |k: u64| {
        let x = cases::uniform(10 + k, shape.iter().product(), 1.0);
        let y: Vec<u32> = cases::labels(20 + k, rows, classes)
            .iter()
            .map(|&label| label as u32)
            .collect();
        Ok((
            Tensor::from_vec(x, shape.clone(), &CPU)?,
            Tensor::from_vec(y, rows, &CPU)?,
        ))
    };
    let batches = (0..4).map(batch).collect::<Result<Vec<_>>>()?;
    let mut optimizer = adam(variables)?;
    let mut batches = batches.iter().cycle();
    let advance = || {
        let (x, y) = batches.next().unwrap();
        let loss = loss::cross_entropy(&forward(x).unwrap(), y).unwrap();
        optimizer.backward_step(&loss).unwrap();
        loss
    };
    let number = |loss: &Tensor| f64::from(loss.to_scalar::<f32>().unwrap());
    support::measure_steps(["C", case, "candle"], advance, number);
    Ok(())
}

fn digits() -> Result<()> {
    let digits = cases::digits();
    let mut variables = Vec::new();
    let model = Mlp::new(&mut variables, [64, 128, 128, 10])?;
    let mut optimizer = adam(variables)?;
    for rows in digits.batches() {
        let (x, y) = digits.part(&rows);
        let y: Vec<u32> = y.iter().map(|&digit| digit as u32).collect();
        let (x, y) = (
            Tensor::from_vec(x, (64, 64), &CPU)?,
            Tensor::from_vec(y, 64, &CPU)?,
        );
        optimizer.backward_step(&loss::cross_entropy(&model.forward(&x)?, &y)?)?;
    }
    let rows = digits.test();
    let x = Tensor::from_vec(digits.part(&rows).0, (rows.len(), 64), &CPU)?;
    let found = model.forward(&x)?.argmax(1)?.to_vec1::<u32>()?;
    digits.print_accuracy(found.into_iter().map(|digit| digit as i32));
    Ok(())
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["train", case] => train(case),
        ["digits"] => digits(),
        ["minilm", folder] => published::minilm(folder, ""),
        ["minilm", folder, "--bf16"] => published::minilm(folder, "-bf16"),
        ["minilm-cold", folder] => published::minilm_cold(folder),
        ["llama", case] => published::llama(case, ""),
        ["llama", case, "--bf16"] => published::llama(case, "-bf16"),
        _ => panic!(
            "expected `train C1`, `digits`, `minilm FOLDER`, `minilm-cold FOLDER` or `llama token`, found {arguments:?}"
        ),
    }
}
