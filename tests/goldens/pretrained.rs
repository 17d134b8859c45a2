//! GPT-2 and ResNet-18 with the names and shapes that Hugging Face and torchvision publish, and layers of PyTorch.
//!
//! The values of all weights follow a formula of their names and shapes, which `pretrained_goldens.py` computes, too.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pytree::checkpoint::{LoadOptions, LoadReport, SaveOptions, WeightLayout, WeightNames};
use pytree::convolution::Padding;
use pytree::nn::{
    Conv, ConvOptions, ConvPadding, ConvTranspose, ConvTransposeOptions, EmbedOptions, GroupNorm,
    Initializer, LayerNorm, LearnedPositions, LinearOptions, LstmCell, MultiHeadAttention,
    MultiHeadAttentionOptions, NormOptions, PRelu, Pool, RecurrentCell, SimpleCell,
    TransformerBlock, TransformerBlockOptions, relu,
};
use pytree::prelude::*;
use serde_json::Value;

use crate::goldens::files::{lengths, read, tensor};
use crate::goldens::formula::{hashed, values};
use crate::goldens::tolerance::numbers;

fn golden(name: &str) -> Value {
    read("pretrained.json")[name].clone()
}

/// A file that is removed at the end of the test.
struct File(PathBuf);

impl File {
    fn new(name: &str) -> Self {
        let unique = format!("pytree-pretrained-{name}-{}", std::process::id());
        Self(std::env::temp_dir().join(unique))
    }

    /// A file with tensors of the given names and shapes, whose values follow the formula.
    fn with_values(name: &str, shapes: &Value, prefix: &str) -> Self {
        let file = Self::new(name);
        let options = SaveOptions::new().names(WeightNames::dotted());
        checkpoint::save_with(&file.0, &values(shapes, prefix), &options).unwrap();
        file
    }

    /// A file with tensors of the given names and shapes, whose values are zeros that need no space on the disk.
    fn with_zeros(name: &str, shapes: &Value) -> Self {
        let (file, mut header, mut end) = (Self::new(name), serde_json::Map::new(), 0);
        for (name, shape) in shapes.as_object().unwrap() {
            let begin = end;
            end += 4 * lengths(shape).iter().product::<usize>();
            let entry =
                serde_json::json!({"dtype": "F32", "shape": shape, "data_offsets": [begin, end]});
            header.insert(name.clone(), entry);
        }
        let header = serde_json::to_vec(&header).unwrap();
        let begin = [&(header.len() as u64).to_le_bytes()[..], &header].concat();
        std::fs::write(&file.0, &begin).unwrap();
        let opened = std::fs::OpenOptions::new()
            .write(true)
            .open(&file.0)
            .unwrap();
        opened.set_len((begin.len() + end) as u64).unwrap();
        file
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Asserts that each number differs by at most 1e-4 of max(1, |expected|).
fn assert_near(what: &str, found: &Tensor, expected: &Value) {
    let expected = tensor(expected);
    assert_eq!(found.info(), expected.info(), "{what}");
    for (found, expected) in numbers(found).iter().zip(numbers(&expected)) {
        let off = (found - expected).abs() / expected.abs().max(1.0);
        assert!(off <= 1e-4, "{what}: found {found}, expected {expected}");
    }
}

// ---------------------------------------------------------------------------
// GPT-2
// ---------------------------------------------------------------------------

#[derive(Module, Clone, Debug)]
struct Gpt2 {
    tokens: Embed,
    positions: LearnedPositions,
    blocks: Vec<TransformerBlock>,
    norm: LayerNorm,
}

impl Gpt2 {
    fn new([vocabulary, length, width, blocks, heads]: [usize; 5]) -> Self {
        // The values are replaced by those of a file, so they need not be random.
        let table = EmbedOptions {
            embedding_init: Initializer::Zeros,
            ..EmbedOptions::default()
        };
        let linear = LinearOptions {
            weight_init: Initializer::Zeros,
            ..LinearOptions::default()
        };
        let norm = NormOptions {
            epsilon: Some(1e-5),
            ..NormOptions::default()
        };
        let attention = MultiHeadAttentionOptions {
            direction: pytree::nn::AttentionDirection::Causal,
            linear,
            ..MultiHeadAttentionOptions::default()
        };
        let block = TransformerBlockOptions {
            attention,
            norm,
            ..TransformerBlockOptions::default()
        };
        let rngs = &mut Rngs::new(0);
        Self {
            tokens: Embed::with_options(vocabulary, width, table, rngs),
            positions: LearnedPositions::with_options(length, width, table, rngs),
            blocks: (0..blocks)
                .map(|_| TransformerBlock::with_options(width, heads, block, rngs))
                .collect(),
            norm: LayerNorm::with_options(width, norm, rngs),
        }
    }

    /// Returns the logits of the next token after each token. The table of tokens is also the last layer.
    #[shapes(tokens = "i32[batch tokens]", return = "f32[batch tokens _]")]
    fn forward(&mut self, tokens: &Tensor) -> Tensor {
        let mut x = self.positions.forward(&self.tokens.forward(tokens));
        for block in &mut self.blocks {
            x = block.forward(&x);
        }
        self.tokens.attend(&self.norm.forward(&x))
    }
}

fn gpt2_names() -> WeightNames {
    let attention = ["query", "key", "value"].map(|part| format!("blocks[{{i}}].attention.{part}"));
    WeightNames::pytorch()
        .rename("transformer.wte", "tokens")
        .rename("transformer.wpe", "positions")
        .rename("transformer.h.{i}.ln_1", "blocks[{i}].attention_norm")
        .split("transformer.h.{i}.attn.c_attn", attention)
        .rename("transformer.h.{i}.attn.c_proj", "blocks[{i}].attention.out")
        .rename("transformer.h.{i}.ln_2", "blocks[{i}].mlp_norm")
        .rename("transformer.h.{i}.mlp.c_fc", "blocks[{i}].mlp.layers[0]")
        .rename("transformer.h.{i}.mlp.c_proj", "blocks[{i}].mlp.layers[1]")
        .layout("blocks[{i}]", WeightLayout::OutputsLast)
        .rename("transformer.ln_f", "norm")
        .ignore("transformer.h.{i}.attn.bias")
        .ignore("transformer.h.{i}.attn.masked_bias")
        .ignore("lm_head")
}

fn loaded(file: &File, model: &Gpt2) -> (Gpt2, LoadReport) {
    let options = LoadOptions::new().names(gpt2_names());
    checkpoint::load_with(&file.0, model, &options).unwrap()
}

#[test]
fn gpt2_gives_the_logits_of_transformers() {
    let golden = golden("gpt2");
    let of = |name: &str| golden["config"][name].as_u64().unwrap() as usize;
    let sizes = ["vocab_size", "n_positions", "n_embd", "n_layer", "n_head"].map(of);
    let [vocabulary, length, width, blocks, _] = sizes;
    // The published names, with the lengths of the smaller configuration.
    let smaller = |length_of: u64| match length_of {
        50257 => vocabulary,
        1024 => length,
        other => other as usize * width / 768,
    };
    let mut shapes = serde_json::Map::new();
    for (name, shape) in golden["published"].as_object().unwrap() {
        let block = name
            .strip_prefix("transformer.h.")
            .and_then(|rest| rest.split('.').next());
        if block.is_none_or(|block| block.parse::<usize>().unwrap() < blocks) {
            let shape = shape.as_array().unwrap().iter();
            let shape: Vec<usize> = shape.map(|n| smaller(n.as_u64().unwrap())).collect();
            shapes.insert(name.clone(), shape.into());
        }
    }
    let file = File::with_values("gpt2", &shapes.into(), "transformer.");
    let (mut gpt2, report) = loaded(&file, &Gpt2::new(sizes));
    // Each of the projections c_attn is divided among six leaves.
    assert_eq!(report.applied.len(), 4 + blocks * 16);
    assert_eq!((report.missing.len(), report.unused.len()), (0, 0));
    let tokens = golden["tokens"].as_array().unwrap().iter();
    let tokens: Vec<Vec<i32>> = tokens
        .map(|row| {
            row.as_array()
                .unwrap()
                .iter()
                .map(|n| n.as_i64().unwrap() as i32)
                .collect()
        })
        .collect();
    let tokens = Tensor::new([tokens.len(), tokens[0].len()], tokens.concat());
    assert_near("logits", &gpt2.forward(&tokens), &golden["logits"]);

    // Saved under the published names, the file has the same tensors.
    let again = File::new("gpt2-again");
    checkpoint::save_with(&again.0, &gpt2, &SaveOptions::new().names(gpt2_names())).unwrap();
    let mut expected = checkpoint::tensors(&file.0).unwrap();
    let ignored = ["lm_head.weight", ".attn.bias", ".attn.masked_bias"];
    expected.retain(|name, _| !ignored.iter().any(|end| name.ends_with(end)));
    assert_eq!(checkpoint::tensors(&again.0).unwrap(), expected);
}

/// All tensors of the published GPT-2 with 124 million parameters find their places.
#[test]
fn published_gpt2_loads_by_name_and_shape() {
    let published = golden("gpt2")["published"].clone();
    assert_eq!(
        published["transformer.h.11.attn.c_attn.weight"],
        serde_json::json!([768, 2304])
    );
    let file = File::with_zeros("gpt2-published", &published);
    let gpt2 = Gpt2::new([50257, 1024, 768, 12, 12]);
    let (loaded, report) = loaded(&file, &gpt2);
    assert_eq!(report.applied.len(), 4 + 12 * 16);
    assert_eq!((report.missing.len(), report.unused.len()), (0, 0));
    let elements: usize = graph::leaves::<Tensor, _>(&loaded)
        .iter()
        .map(|leaf| leaf.len())
        .sum();
    assert_eq!(elements, 124_439_808);
}

// ---------------------------------------------------------------------------
// ResNet-18
// ---------------------------------------------------------------------------

/// A convolution with a kernel of odd size that keeps the size of the image, divided by the stride, as in torchvision.
fn conv(inputs: usize, outputs: usize, size: usize, stride: usize, rngs: &mut Rngs) -> Conv {
    let half = (size / 2) as isize;
    let options = ConvOptions {
        strides: stride.into(),
        padding: ConvPadding::from([(half, half); 2]),
        weight_init: Initializer::Zeros,
        bias_init: None,
        ..ConvOptions::default()
    };
    Conv::with_options(inputs, outputs, [size, size], options, rngs)
}

#[derive(Module, Clone, Debug)]
struct BasicBlock {
    conv1: Conv,
    bn1: BatchNorm,
    conv2: Conv,
    bn2: BatchNorm,
    downsample: Option<(Conv, BatchNorm)>,
}

impl BasicBlock {
    fn new(inputs: usize, outputs: usize, stride: usize, rngs: &mut Rngs) -> Self {
        Self {
            conv1: conv(inputs, outputs, 3, stride, rngs),
            bn1: BatchNorm::new(outputs, rngs),
            conv2: conv(outputs, outputs, 3, 1, rngs),
            bn2: BatchNorm::new(outputs, rngs),
            downsample: (stride > 1).then(|| {
                (
                    conv(inputs, outputs, 1, stride, rngs),
                    BatchNorm::new(outputs, rngs),
                )
            }),
        }
    }

    fn forward(&mut self, x: &Tensor) -> Tensor {
        let y = relu(&self.bn1.forward(&self.conv1.forward(x)));
        let y = self.bn2.forward(&self.conv2.forward(&y));
        let shortcut = match &mut self.downsample {
            Some((conv, norm)) => norm.forward(&conv.forward(x)),
            None => x.clone(),
        };
        relu(&(y + shortcut))
    }
}

#[derive(Module, Clone, Debug)]
struct ResNet18 {
    conv1: Conv,
    bn1: BatchNorm,
    pool: Pool,
    stages: Vec<Vec<BasicBlock>>,
    fc: Linear,
}

impl ResNet18 {
    fn new(rngs: &mut Rngs) -> Self {
        let stage = |(outputs, stride): (usize, usize), rngs: &mut Rngs| {
            let first = BasicBlock::new(outputs / stride, outputs, stride, rngs);
            vec![first, BasicBlock::new(outputs, outputs, 1, rngs)]
        };
        Self {
            conv1: conv(3, 64, 7, 2, rngs),
            bn1: BatchNorm::new(64, rngs),
            pool: Pool::max([3, 3])
                .strides(2)
                .padding(Padding::Explicit(vec![(1, 1); 2])),
            stages: [(64, 1), (128, 2), (256, 2), (512, 2)]
                .map(|s| stage(s, rngs))
                .to_vec(),
            fc: Linear::new(512, 1000, rngs),
        }
    }

    /// Returns the logits of images `[batch, height, width, 3]`.
    fn forward(&mut self, x: &Tensor) -> Tensor {
        let x = relu(&self.bn1.forward(&self.conv1.forward(x)));
        let mut x = self.pool.forward(&x);
        for block in self.stages.iter_mut().flatten() {
            x = block.forward(&x);
        }
        self.fc.forward(&x.mean_axes([1, 2]))
    }
}

#[test]
fn resnet18_gives_the_logits_of_torchvision() {
    let golden = golden("resnet18");
    assert_eq!(golden["published"].as_object().unwrap().len(), 122);
    let file = File::with_values("resnet18", &golden["published"], "");
    let names = WeightNames::pytorch().rename("layer{i+1}", "stages[{i}]");
    let options = LoadOptions::new().names(names.clone());
    let (resnet, report) =
        checkpoint::load_with(&file.0, &ResNet18::new(&mut Rngs::new(0)), &options).unwrap();
    assert_eq!(
        report.to_string(),
        "102 applied, 0 missing, 0 unused, 21 transposed, 20 ignored"
    );
    let images = hashed(2 * 3 * 64 * 64, 1).map(|x| x as f32);
    // Images of torch have the axis of colours before those of space.
    let images = Tensor::new([2, 3, 64, 64], images.collect::<Vec<f32>>()).transpose([0, 2, 3, 1]);
    assert_near("logits", &eval(&resnet).forward(&images), &golden["logits"]);

    let again = File::new("resnet18-again");
    checkpoint::save_with(&again.0, &resnet, &SaveOptions::new().names(names)).unwrap();
    let mut expected = checkpoint::tensors(&file.0).unwrap();
    expected.retain(|name, _| !name.ends_with("num_batches_tracked"));
    assert_eq!(checkpoint::tensors(&again.0).unwrap(), expected);
}

// ---------------------------------------------------------------------------
// Layers
// ---------------------------------------------------------------------------

/// Loads a layer of PyTorch, whose values follow the formula.
fn layer<M: Model>(name: &str, template: &M, names: WeightNames) -> (M, Tensor, Value) {
    let golden = golden("layers")[name].clone();
    let file = File::with_values(name, &golden["shapes"], "");
    let options = LoadOptions::new().names(names);
    let (layer, _) = checkpoint::load_with(&file.0, template, &options).unwrap();
    (layer, tensor(&golden["x"]), golden["y"].clone())
}

/// Moves the axis of features of an array of PyTorch to the end.
fn last(x: &Tensor) -> Tensor {
    x.move_axis(1, -1)
}

#[test]
fn layers_give_the_outputs_of_pytorch() {
    let rngs = &mut Rngs::new(0);
    let names = WeightNames::pytorch;
    let (linear, x, y) = layer("linear", &Linear::new(5, 3, rngs), names());
    assert_near("linear", &linear.forward(&x), &y);

    let options = ConvOptions {
        strides: 2.into(),
        groups: 2,
        padding: ConvPadding::Valid,
        ..ConvOptions::default()
    };
    let conv = Conv::with_options(4, 6, [3, 2], options, rngs);
    let (conv, x, y) = layer("convolution", &conv, names());
    assert_near("convolution", &conv.forward(&last(&x)).move_axis(-1, 1), &y);

    let options = ConvTransposeOptions {
        strides: 2.into(),
        padding: ConvPadding::Valid,
        ..ConvTransposeOptions::default()
    };
    let conv = ConvTranspose::with_options(4, 3, [4, 3], options, rngs);
    let (conv, x, y) = layer("transposed", &conv, names());
    assert_near(
        "transposed convolution",
        &conv.forward(&last(&x)).move_axis(-1, 1),
        &y,
    );

    let norm = NormOptions {
        epsilon: Some(1e-5),
        ..NormOptions::default()
    };
    let (norm, x, y) = layer("norm", &GroupNorm::with_options(4, 2, norm, rngs), names());
    assert_near("group norm", &norm.forward(&last(&x)).move_axis(-1, 1), &y);

    let (norm, x, y) = layer("batch_norm", &BatchNorm::new(4, rngs), names());
    assert_near(
        "batch norm",
        &eval(&norm).forward(&last(&x)).move_axis(-1, 1),
        &y,
    );

    let names = names()
        .split("in_proj_{p}", ["query.{p}", "key.{p}", "value.{p}"])
        .rename("out_proj", "out");
    let (mut attention, x, y) = layer("attention", &MultiHeadAttention::new(6, 3, rngs), names);
    assert_near("attention", &attention.forward(&x), &y);
}

/// The layers of `torch.json` have the names that PyTorch gives them.
#[test]
fn recurrent_layers_give_the_outputs_of_pytorch() {
    let golden = read("torch.json");
    for case in golden["layers"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let file = File::new(name);
        let state = case["state"].as_object().unwrap().iter();
        let state: BTreeMap<String, Tensor> = state
            .map(|(name, value)| (name.clone(), tensor(value)))
            .collect();
        let dotted = SaveOptions::new().names(WeightNames::dotted());
        checkpoint::save_with(&file.0, &state, &dotted).unwrap();
        let names = WeightNames::pytorch()
            .rename("weight_ih_l0", "input")
            .rename("weight_hh_l0", "recurrent")
            .sum(["bias_ih_l0", "bias_hh_l0"], "bias");
        let options = LoadOptions::new().names(names);
        let (x, rngs) = (tensor(&case["x"]), &mut Rngs::new(0));
        let y = match name {
            "lstm" => {
                let cell = LstmCell::new(3, 4, rngs);
                let (cell, _) = checkpoint::load_with(&file.0, &cell, &options).unwrap();
                outputs(&cell, &x)
            }
            "rnn" => {
                let cell = SimpleCell::new(3, 4, rngs);
                let (cell, _) = checkpoint::load_with(&file.0, &cell, &options).unwrap();
                outputs(&cell, &x)
            }
            _ => {
                let options = LoadOptions::new().names(WeightNames::pytorch());
                let (layer, _) =
                    checkpoint::load_with(&file.0, &PRelu::default(), &options).unwrap();
                layer.forward(&x)
            }
        };
        assert_near(name, &y, &case["y"]);
    }
}

/// Returns the outputs of a cell for `x: [time, batch, in]`.
fn outputs<C: RecurrentCell>(cell: &C, x: &Tensor) -> Tensor {
    let mut carry = cell.initial_carry(&x.shape()[1..2]);
    let steps = (0..x.shape()[0]).map(|step| {
        let y;
        (carry, y) = cell.try_step(&carry, &x.index(ix![step as i32])).unwrap();
        y
    });
    Tensor::stack(&steps.collect::<Vec<_>>(), 0)
}

#[test]
fn file_of_pytorch_is_read() {
    let golden = golden("file");
    let digits = golden["bytes"].as_str().unwrap();
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    let bytes: Vec<u8> = (0..digits.len()).step_by(2).map(byte).collect();
    let file = File::new("torch");
    std::fs::write(&file.0, bytes).unwrap();
    assert_eq!(checkpoint::metadata(&file.0).unwrap()["format"], "pt");
    let options = LoadOptions::new()
        .names(WeightNames::pytorch())
        .rename_with(|name| name.replacen("fc.", "", 1))
        .convert_floats();
    let template = Linear::new(5, 3, &mut Rngs::new(0));
    let (linear, report) = checkpoint::load_with(&file.0, &template, &options).unwrap();
    assert_eq!(linear.weight, tensor(&golden["weight"]).t());
    assert_eq!(linear.bias, Some(tensor(&golden["bias"])));
    assert_eq!(
        report.to_string(),
        "2 applied, 0 missing, 0 unused, 1 converted, 1 transposed"
    );
}

#[derive(Module, Clone, Debug)]
struct FlaxNet {
    conv: Conv,
    up: ConvTranspose,
    bn: BatchNorm,
    norm: LayerNorm,
    table: Embed,
    fc: Linear,
    attention: MultiHeadAttention,
}

#[test]
fn layers_have_the_names_and_shapes_of_flax() {
    let rngs = &mut Rngs::new(0);
    let net = FlaxNet {
        conv: Conv::new(3, 4, [2, 5], rngs),
        up: ConvTranspose::new(4, 2, [3], rngs),
        bn: BatchNorm::new(4, rngs),
        norm: LayerNorm::new(4, rngs),
        table: Embed::new(6, 2, rngs),
        fc: Linear::new(2, 3, rngs),
        attention: MultiHeadAttention::new(6, 3, rngs),
    };
    let file = File::new("flax");
    let names = WeightNames::flax().separator("/");
    checkpoint::save_with(&file.0, &net, &SaveOptions::new().names(names)).unwrap();
    let entries = checkpoint::inspect(&file.0).unwrap();
    let found: BTreeMap<String, Vec<usize>> = entries
        .into_iter()
        .map(|entry| (entry.name, entry.shape))
        .collect();
    let golden = read("flax_names.json")["shapes"].clone();
    let expected = golden.as_object().unwrap().iter();
    let expected: BTreeMap<String, Vec<usize>> = expected
        .map(|(name, shape)| (name.clone(), lengths(shape)))
        .collect();
    assert_eq!(found, expected);
}
