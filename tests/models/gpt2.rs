//! GPT-2 compared with transformers. The weights follow a formula.

use pytree::checkpoint::SaveOptions;
use pytree::models::{Gpt2, Pretrained};
use pytree::prelude::*;
use serde_json::{Map, Value, json};

use super::{Folder, assert_near};
use crate::goldens::files::{lengths, read};
use crate::goldens::formula::values;

/// Returns the published names with the lengths of a smaller configuration.
fn smaller(golden: &Value) -> Value {
    let of = |name: &str| golden["config"][name].as_u64().unwrap() as usize;
    let mut shapes = Map::new();
    for (name, shape) in golden["published"].as_object().unwrap() {
        let block = name.strip_prefix("transformer.h.");
        let block = block.and_then(|rest| rest.split('.').next()?.parse::<usize>().ok());
        let length = |published: usize| match published {
            50257 => of("vocab_size"),
            1024 => of("n_positions"),
            other => other * of("n_embd") / 768,
        };
        // The last layer is the table of tokens, and the file has it once.
        if name != "lm_head.weight" && block.is_none_or(|block| block < of("n_layer")) {
            let shape: Vec<usize> = lengths(shape).into_iter().map(length).collect();
            shapes.insert(name.clone(), shape.into());
        }
    }
    shapes.into()
}

fn config(sizes: &Value) -> Value {
    let mut config = json!({"model_type": "gpt2", "activation_function": "gelu_new"});
    for (key, value) in sizes.as_object().unwrap() {
        config[key] = value.clone();
    }
    config
}

#[test]
fn logits_are_those_of_transformers() {
    let golden = read("pretrained.json")["gpt2"].clone();
    let folder = Folder::new("gpt2", &config(&golden["config"]));
    let tensors = values(&smaller(&golden), "transformer.");
    folder.save(&tensors);
    let mut gpt2 = Gpt2::from_pretrained(&folder.0).unwrap();
    let tokens: Vec<Vec<i32>> = serde_json::from_value(golden["tokens"].clone()).unwrap();
    let tokens = Tensor::new([tokens.len(), tokens[0].len()], tokens.concat());
    let logits = gpt2.forward(&tokens);
    assert_eq!(logits.shape(), lengths(&golden["logits"]["shape"]));
    assert_near(
        "logits",
        &logits.to_vec::<f32>(),
        &golden["logits"]["data"],
        1e-4,
    );

    let narrow = Gpt2::from_pretrained(Pretrained::new(&folder.0).floats(DType::BF16)).unwrap();
    let leaves = graph::leaves::<Tensor, _>(&narrow);
    assert!(leaves.iter().all(|leaf| leaf.dtype() == DType::BF16));

    // Saved under the published names, the file has the same tensors.
    let again = folder.0.join("again.safetensors");
    checkpoint::save_with(&again, &gpt2, &SaveOptions::new().names(gpt2.names())).unwrap();
    let is_mask = |name: &str| name.ends_with(".attn.bias") || name.ends_with(".masked_bias");
    let expected = tensors.into_iter().filter(|(name, _)| !is_mask(name));
    let expected = expected.map(|(name, tensor)| (name.replace("transformer.", ""), tensor));
    assert_eq!(checkpoint::tensors(&again).unwrap(), expected.collect());
}

/// All tensors of the published GPT-2 with 124 million parameters find their places. The file also has the last layer.
#[test]
fn published_model_loads_by_name_and_shape() {
    let published = read("pretrained.json")["gpt2"]["published"].clone();
    let sizes = json!({"vocab_size": 50257, "n_positions": 1024, "n_embd": 768, "n_layer": 12, "n_head": 12});
    let folder = Folder::new("gpt2-published", &config(&sizes));
    folder.save_zeros(&published);
    let gpt2 = Gpt2::from_pretrained(&folder.0).unwrap();
    let leaves = graph::leaves::<Tensor, _>(&gpt2);
    assert_eq!(leaves.len(), 4 + 12 * 16);
    let elements: usize = leaves.iter().map(|leaf| leaf.len()).sum();
    assert_eq!(elements, 124_439_808);
}
