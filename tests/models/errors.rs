//! Folders that do not load. Each error says what is wrong, where, and how to fix it.

use pytree::models::{Bert, ModelError};
use pytree::prelude::*;
use serde_json::{Value, json};

use super::Folder;

/// The configuration of a small BERT.
fn config() -> Value {
    json!({
        "model_type": "bert", "vocab_size": 11, "max_position_embeddings": 8, "type_vocab_size": 2, "hidden_size": 4,
        "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 6, "hidden_act": "gelu",
    })
}

fn with(changes: &Value) -> Value {
    let mut config = config();
    for (key, value) in changes.as_object().unwrap() {
        config[key] = value.clone();
    }
    config
}

/// The tensors of the small BERT, with names of Hugging Face.
fn tensors() -> std::collections::BTreeMap<String, Tensor> {
    let mut shapes = vec![
        ("embeddings.word_embeddings.weight".to_owned(), vec![11, 4]),
        (
            "embeddings.position_embeddings.weight".to_owned(),
            vec![8, 4],
        ),
        (
            "embeddings.token_type_embeddings.weight".to_owned(),
            vec![2, 4],
        ),
    ];
    let mut layer = |name: &str, shape: &[usize]| {
        shapes.push((format!("{name}.weight"), shape.to_vec()));
        shapes.push((format!("{name}.bias"), vec![shape[0]]));
    };
    layer("embeddings.LayerNorm", &[4]);
    for part in ["self.query", "self.key", "self.value", "output.dense"] {
        layer(&format!("encoder.layer.0.attention.{part}"), &[4, 4]);
    }
    layer("encoder.layer.0.attention.output.LayerNorm", &[4]);
    layer("encoder.layer.0.intermediate.dense", &[6, 4]);
    layer("encoder.layer.0.output.dense", &[4, 6]);
    layer("encoder.layer.0.output.LayerNorm", &[4]);
    let tensors = shapes.into_iter();
    tensors
        .map(|(name, shape)| (name, Tensor::ones(DType::F32, shape)))
        .collect()
}

#[track_caller]
fn error(folder: &Folder) -> (ModelError, String) {
    let error = Bert::from_pretrained(&folder.0).unwrap_err();
    // An example whose `main` returns the error prints the debug form.
    assert_eq!(format!("{error:?}"), error.to_string());
    let text = error
        .to_string()
        .replace(&folder.0.display().to_string(), "FOLDER");
    (error, text)
}

#[test]
fn small_model_loads() {
    let folder = Folder::new("loads", &config());
    folder.save(&tensors());
    let bert = Bert::from_pretrained(&folder.0).unwrap();
    assert_eq!(bert.blocks[0].mlp.layers[0].weight.shape(), [4, 6]);
}

/// Files with heads of pretraining, and with the names that TensorFlow gives to normalisations.
#[test]
fn names_of_pretraining_load() {
    let folder = Folder::new("pretraining", &config());
    let renamed = tensors().into_iter().map(|(name, tensor)| {
        let name = name
            .replace("Norm.weight", "Norm.gamma")
            .replace("Norm.bias", "Norm.beta");
        (format!("bert.{name}"), tensor)
    });
    let mut renamed: std::collections::BTreeMap<String, Tensor> = renamed.collect();
    renamed.insert(
        "cls.predictions.bias".to_owned(),
        Tensor::zeros(DType::F32, [11]),
    );
    renamed.insert(
        "bert.pooler.dense.weight".to_owned(),
        Tensor::zeros(DType::F32, [4, 4]),
    );
    folder.save(&renamed);
    assert!(Bert::from_pretrained(&folder.0).is_ok());
}

#[test]
fn missing_folder_names_the_download() {
    let folder = Folder::new("missing", &config());
    std::fs::remove_file(folder.0.join("config.json")).unwrap();
    let (error, text) = error(&folder);
    assert!(matches!(error, ModelError::Io { .. }));
    assert!(
        text.starts_with("cannot read `FOLDER/config.json`: "),
        "{text}"
    );
    assert!(text.ends_with("; download the folder of a model with `hf download NAME --local-dir FOLDER`, and give its path"), "{text}");
}

#[test]
fn other_architecture_is_refused() {
    let folder = Folder::new("architecture", &with(&json!({"model_type": "t5"})));
    let (_, text) = error(&folder);
    assert_eq!(
        text,
        "cannot build the model of `FOLDER/config.json`:\n  model_type: expected \"bert\", found \"t5\""
    );
}

#[test]
fn all_problems_of_a_configuration_are_listed() {
    let changes = json!({"vocab_size": -3, "hidden_size": 5, "hidden_act": "swiglu", "num_hidden_layers": null, "layer_norm_eps": "small", "position_embedding_type": "relative_key"});
    let folder = Folder::new("problems", &with(&changes));
    folder.save(&tensors());
    assert_eq!(
        error(&folder).1,
        "cannot build the model of `FOLDER/config.json`:
  position_embedding_type: expected \"absolute\", because this model has nothing else, found \"relative_key\"
  vocab_size: expected a positive whole number, found -3
  num_hidden_layers: expected a positive whole number, but the file has no such key
  hidden_size: expected a multiple of 2 (num_attention_heads), found 5
  layer_norm_eps: expected a positive number, found \"small\"
  hidden_act: expected the name of an activation: gelu, gelu_new, gelu_pytorch_tanh, relu, silu or tanh, found \"swiglu\""
    );
}

/// A size is compared with the length of the weights before anything is allocated.
#[test]
fn huge_sizes_are_refused() {
    for key in [
        "vocab_size",
        "max_position_embeddings",
        "type_vocab_size",
        "num_hidden_layers",
        "intermediate_size",
        "hidden_size",
    ] {
        for size in [1_000_000_000_000_u64, u64::MAX - 1] {
            let folder = Folder::new("huge", &with(&json!({key: size})));
            folder.save(&tensors());
            let (error, text) = error(&folder);
            assert!(matches!(error, ModelError::Config { .. }), "{text}");
            assert!(
                text.contains(key) && text.contains("because the weights have so many bytes"),
                "{text}"
            );
        }
    }
}

/// The model cannot be traced with matrices of so many elements, even if the weights are as long.
#[test]
fn large_matrices_are_refused() {
    for key in [
        "vocab_size",
        "max_position_embeddings",
        "type_vocab_size",
        "intermediate_size",
        "hidden_size",
    ] {
        let changes = json!({"hidden_size": 1 << 20, key: 1 << 21});
        let folder = Folder::new("long", &with(&changes));
        folder.save(&tensors());
        let path = folder.0.join("model.safetensors");
        let weights = std::fs::OpenOptions::new().write(true).open(path);
        // The file system does not store the zeros.
        weights.unwrap().set_len(1 << 40).unwrap();
        let (error, text) = error(&folder);
        assert!(matches!(error, ModelError::Config { .. }), "{text}");
        let expected = format!(
            "{key} * hidden_size: expected at most 4294967296 elements, for weights of 1099511627776 bytes, found 2097152 * "
        );
        assert!(text.contains(&expected), "{text}");
    }
}

#[test]
fn configuration_that_is_not_json_is_refused() {
    for (content, problem) in [
        ("{", "EOF while parsing"),
        ("[1]", "found [1]"),
        ("\u{0}", "expected value"),
    ] {
        let folder = Folder::new("json", &config());
        folder.write("config.json", content);
        let (_, text) = error(&folder);
        assert!(
            text.starts_with("cannot read `FOLDER/config.json`: expected a JSON object, "),
            "{text}"
        );
        assert!(text.contains(problem), "{text}");
    }
}

#[test]
fn pickles_are_refused_with_a_command() {
    let folder = Folder::new("pickle", &config());
    folder.write("pytorch_model.bin", "PK");
    let (_, text) = error(&folder);
    assert!(text.starts_with("cannot load weights from `FOLDER`: expected `model.safetensors` or `model.safetensors.index.json`, found `pytorch_model.bin`, a pickle of PyTorch; "), "{text}");
    assert!(text.contains("s.save_file("), "{text}");
}

#[test]
fn all_mismatches_of_the_weights_are_listed() {
    let folder = Folder::new("mismatches", &config());
    let mut tensors = tensors();
    tensors.remove("encoder.layer.0.output.LayerNorm.bias");
    tensors.insert(
        "embeddings.LayerNorm.weight".to_owned(),
        Tensor::ones(DType::F32, [5]),
    );
    tensors.insert(
        "adapter.weight".to_owned(),
        Tensor::ones(DType::F32, [2, 4]),
    );
    folder.save(&tensors);
    let (error, text) = error(&folder);
    assert!(matches!(error, ModelError::Checkpoint(_)));
    for part in [
        "norm.scale",
        "`embeddings.LayerNorm.weight`",
        "blocks[0].mlp_norm.bias",
        "`encoder.layer.0.output.LayerNorm.bias`",
        "adapter.weight",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}
