//! Llama and its relatives compared with transformers. The weights follow a formula.

use pytree::models::Llama;
use pytree::nn::with_cache;
use pytree::prelude::*;
use serde_json::Value;

use super::{Folder, assert_near};
use crate::goldens::files::read;
use crate::goldens::formula::values;

/// Loads the model of a golden, and compares the logits after the last token: of all tokens at once, and one by one with a cache.
fn check(name: &str) -> Llama {
    let golden: Value = read("models.json")["llama"][name].clone();
    let folder = Folder::new(name, &golden["config"]);
    let tensors = values(&golden["shapes"], "");
    folder.save(&tensors);
    let mut llama = Llama::from_pretrained(&folder.0).unwrap();
    let tokens: Vec<Vec<i32>> = serde_json::from_value(golden["tokens"].clone()).unwrap();
    let (batch, length) = (tokens.len(), tokens[0].len());
    let tokens = Tensor::new([batch, length], tokens.concat());
    let expected = golden["logits"].as_array().unwrap();
    let compare = |logits: Tensor| {
        for (row, expected) in expected.iter().enumerate() {
            let found = logits.index(ix![row, -1]).to_vec::<f32>();
            assert_near(name, &found, expected, 1e-4);
        }
    };
    compare(llama.forward(&tokens));
    let mut decoder = with_cache(&llama, [batch], length);
    decoder.forward(&tokens.index(ix![.., 0..15]));
    for place in 15..length - 1 {
        decoder.forward(&tokens.index(ix![.., place..=place]));
    }
    compare(decoder.forward(&tokens.index(ix![.., -1..])));

    // Saved under the published names, the file has the same tensors.
    let again = folder.0.join("again.safetensors");
    let options = checkpoint::SaveOptions::new().names(llama.names());
    checkpoint::save_with(&again, &llama, &options).unwrap();
    assert_eq!(checkpoint::tensors(&again).unwrap(), tensors);
    llama
}

#[test]
fn layer_of_qwen3_gives_the_logits_of_transformers() {
    let qwen = check("qwen3");
    assert_eq!(
        qwen.blocks[0].attention.query.weight.shape(),
        [1024, 16, 128]
    );
    assert!(qwen.head.is_none());
}

#[test]
fn layers_of_smollm2_give_the_logits_of_transformers() {
    let smollm = check("smollm2");
    assert_eq!(smollm.blocks[1].attention.key.weight.shape(), [576, 3, 64]);
}

#[test]
fn scaled_rotary_positions_are_those_of_transformers() {
    for name in ["llama3", "linear", "yarn"] {
        assert!(check(name).head.is_some());
    }
}

/// The window is shorter than the sequences.
#[test]
fn window_of_mistral_is_that_of_transformers() {
    assert_eq!(check("mistral").blocks[0].attention.window, Some(5));
}

#[test]
fn biases_of_qwen2_are_those_of_transformers() {
    let qwen = check("qwen2");
    assert!(qwen.blocks[0].attention.query.bias.is_some());
}

#[test]
fn unknown_scaling_is_refused() {
    let mut config = read("models.json")["llama"]["linear"]["config"].clone();
    config["rope_scaling"] = serde_json::json!({"rope_type": "longrope", "factor": 4.0});
    let folder = Folder::new("longrope", &config);
    folder.save(&values(
        &read("models.json")["llama"]["linear"]["shapes"],
        "",
    ));
    let error = Llama::from_pretrained(&folder.0).unwrap_err().to_string();
    let expected = "rope_scaling.rope_type: expected \"default\", \"linear\", \"llama3\" or \"yarn\", found \"longrope\"";
    assert!(error.ends_with(expected), "{error}");
}
