//! Layers and files of PyTorch.
//!
//! The values of all weights follow a formula of their names and shapes, which `pretrained_goldens.py` computes, too.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pytree::checkpoint::{LoadOptions, SaveOptions, WeightNames};
use pytree::nn::{
    Conv, ConvOptions, ConvPadding, ConvTranspose, ConvTransposeOptions, GroupNorm, LayerNorm,
    LstmCell, MultiHeadAttention, NormOptions, PRelu, RecurrentCell, SimpleCell,
};
use pytree::prelude::*;
use serde_json::Value;

use crate::goldens::files::{lengths, read, tensor};
use crate::goldens::formula::values;
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
#[cfg_attr(target_family = "wasm", ignore = "needs temporary files")]
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
#[cfg_attr(target_family = "wasm", ignore = "needs temporary files")]
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
#[cfg_attr(target_family = "wasm", ignore = "needs temporary files")]
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
#[cfg_attr(target_family = "wasm", ignore = "needs temporary files")]
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
