//! Each key of the configuration of small models is changed from its default, and compared with transformers, or refused. The
//! weights follow a formula.

use std::collections::BTreeMap;

use pytree::models::{Bert, Gpt2, LanguageModel, Llama, ModelError, SentenceLayer, Tokens};
use pytree::prelude::*;
use serde_json::{Map, Value, json};

use super::{Folder, assert_near};
use crate::goldens::files::read;
use crate::goldens::formula::values;

fn golden() -> Value {
    read("settings.json")
}

/// Returns the numbers of the last tokens that the golden has.
fn output(folder: &Folder, model_type: &Value) -> Result<Vec<f32>, ModelError> {
    let tokens: Vec<Vec<i32>> = serde_json::from_value(golden()["tokens"].clone()).unwrap();
    let tokens = Tokens::new(&tokens);
    fn logits<M: LanguageModel>(mut model: M, tokens: &Tokens) -> Tensor {
        let features = model.features(&tokens.ids);
        model.logits(&features)
    }
    let rows = match model_type.as_str().unwrap() {
        "bert" => Bert::from_pretrained(&folder.0)?.forward(&tokens),
        "gpt2" => logits(Gpt2::from_pretrained(&folder.0)?, &tokens),
        _ => logits(Llama::from_pretrained(&folder.0)?, &tokens),
    };
    let last = rows.index(ix![.., -1]);
    let numbers = last.to_vec::<f32>();
    let rows = numbers.chunks(last.shape()[1]);
    Ok(rows
        .flat_map(|row| row.iter().copied().step_by(5))
        .collect())
}

fn saved(name: &str, config: &Value, shapes: &Value) -> Folder {
    let folder = Folder::new(name, config);
    folder.save(&values(shapes, ""));
    folder
}

#[test]
fn each_key_is_used_or_refused() {
    for (name, golden) in golden()["models"].as_object().unwrap() {
        let (config, shapes) = (&golden["config"], &golden["shapes"]);
        let folder = saved(name, config, shapes);
        let before = output(&folder, &config["model_type"]).unwrap();
        assert_near(name, &before, &golden["output"], 1e-4);
        for case in golden["changed"].as_array().unwrap() {
            let key = case["key"].as_str().unwrap();
            let (mut config, mut shapes) = (config.clone(), shapes.as_object().unwrap().clone());
            let changes = case.as_object().unwrap().iter();
            let is_change = |key: &str| !["key", "mark", "output", "shapes"].contains(&key);
            for (key, value) in changes.filter(|(key, _)| is_change(key)) {
                config[key] = value.clone();
            }
            for (name, shape) in case["shapes"].as_object().into_iter().flatten() {
                shapes.remove(name);
                shapes.extend((!shape.is_null()).then(|| (name.clone(), shape.clone())));
            }
            let what = format!("{name}: {key} in {config}");
            let folder = saved(name, &config, &Value::Object(shapes));
            let found = output(&folder, &config["model_type"]);
            if case["mark"] == "refused" {
                let text = found.expect_err(&what).to_string();
                assert!(text.contains(&format!("\n  {key}: expected ")), "{text}");
                continue;
            }
            let found = found.unwrap_or_else(|error| panic!("{what}: {error}"));
            match case["mark"] == "used" {
                true => assert_near(&what, &found, &case["output"], 1e-4),
                false => assert_eq!(found, before, "{what}"),
            }
        }
        for unknown in ["n_experts", "Hidden_size"] {
            let mut config = config.clone();
            config[unknown] = json!(8);
            let text = output(&saved(name, &config, shapes), &config["model_type"]).unwrap_err();
            let expected = format!(
                "  {unknown}: expected a key that this library knows; remove it if it changes no number, found 8"
            );
            assert!(text.to_string().contains(&expected), "{text}");
        }
    }
}

/// Each model with another head has the features or logits of the base model; what is left out is reported.
#[test]
fn base_models_and_heads_load() {
    let golden = golden();
    for (name, heads) in golden["heads"].as_object().unwrap() {
        let model = &golden["models"][name];
        for (head, shapes) in heads.as_object().unwrap() {
            let mut config = model["config"].clone();
            let mut tensors = values(shapes, "");
            let is_causal = tensors.contains_key("lm_head.weight") && name != "gpt2";
            config["tie_word_embeddings"] = json!(!is_causal);
            if name == "gpt2" {
                tensors.remove("lm_head.weight");
            }
            // The weights of the base model have the same values in each file.
            let base = ["bert.", "transformer.", "model."];
            let plain = |name: &str| {
                let plain = base.iter().find_map(|base| name.strip_prefix(base));
                plain.unwrap_or(name).to_owned()
            };
            let named: Map<String, Value> = shapes.as_object().unwrap().clone();
            for (name, tensor) in &mut tensors {
                let shape = json!({plain(name): named[name]});
                *tensor = values(&shape, "").into_values().next().unwrap();
            }
            let folder = Folder::new(head, &config);
            folder.save(&tensors);
            let report = match &**name {
                "bert" => Bert::from_pretrained_with_report(&folder.0).map(|(_, report)| report),
                "gpt2" => Gpt2::from_pretrained_with_report(&folder.0).map(|(_, report)| report),
                _ => Llama::from_pretrained_with_report(&folder.0).map(|(_, report)| report),
            };
            let report = report.unwrap_or_else(|error| panic!("{head}: {error}"));
            let of_base: Vec<String> = heads
                .as_object()
                .unwrap()
                .values()
                .next_back()
                .unwrap()
                .as_object()
                .unwrap()
                .keys()
                .cloned()
                .collect();
            let others = tensors.keys().filter(|name| {
                !(of_base.contains(&plain(name)) || is_causal && *name == "lm_head.weight")
            });
            let others: Vec<&String> = others.collect();
            let pooler = report
                .ignored
                .iter()
                .filter(|name| !name.contains("pooler."));
            let ignored: Vec<&String> = pooler.collect();
            assert_eq!(ignored, others, "{head}");
            if !is_causal {
                let key = "tie_word_embeddings";
                let found = output(&folder, &config["model_type"]).unwrap();
                let of = values(&Value::Object(named), "").into_keys();
                assert!(
                    found.iter().all(|number| number.is_finite()),
                    "{head}: {of:?}"
                );
                config[key] = json!(false);
                folder.write("config.json", &config.to_string());
                if name != "bert" {
                    let text = output(&folder, &config["model_type"])
                        .unwrap_err()
                        .to_string();
                    assert!(
                        text.contains("tie_word_embeddings: expected true, because "),
                        "{text}"
                    );
                }
            }
        }
    }
}

/// A file with both names of a tied weight loads if they are equal.
#[test]
fn tied_weights_that_differ_are_refused() {
    for (name, prefix) in [("gpt2", "transformer.wte"), ("llama", "model.embed_tokens")] {
        let golden = golden()["models"][name].clone();
        let mut config = golden["config"].clone();
        config["tie_word_embeddings"] = json!(true);
        let mut tensors: BTreeMap<String, Tensor> = values(&golden["shapes"], "");
        let folder = Folder::new("tied", &config);
        let table = tensors[&format!("{prefix}.weight")].clone();
        for (head, is_right) in [
            (table.clone(), true),
            (&table + 1.0, false),
            (table.convert(DType::BF16), false),
            (table.index(ix![0..30]), false),
        ] {
            tensors.insert("lm_head.weight".to_owned(), head);
            folder.save(&tensors);
            let found = output(&folder, &config["model_type"]);
            assert_eq!(found.is_ok(), is_right, "{found:?}");
            if let Err(error) = found {
                let text = error.to_string();
                assert!(
                    text.contains("lm_head.weight") && text.contains(prefix),
                    "{text}"
                );
            }
        }
    }
}

/// The header of the weights bounds what is built.
#[test]
fn layers_without_weights_are_refused_quickly() {
    for (name, key) in [
        ("gpt2", "n_layer"),
        ("bert", "num_hidden_layers"),
        ("qwen3", "num_hidden_layers"),
    ] {
        let golden = golden()["models"][name].clone();
        let mut config = golden["config"].clone();
        config[key] = json!(90_000);
        let mut tensors = values(&golden["shapes"], "");
        tensors.insert(
            "cls.large".to_owned(),
            Tensor::zeros(DType::F32, [13_000_000]),
        );
        let folder = Folder::new("layers", &config);
        folder.save(&tensors);
        let text = output(&folder, &config["model_type"])
            .unwrap_err()
            .to_string();
        let expected = format!(
            "{key}: expected at most {}, because the weights have so many tensors, found 90000",
            tensors.len()
        );
        assert!(text.contains(&expected), "{text}");
    }
}

#[test]
fn weights_beside_an_index_are_refused() {
    let golden = golden()["models"]["bert"].clone();
    let folder = saved("index", &golden["config"], &golden["shapes"]);
    folder.write("model.safetensors.index.json", r#"{"weight_map": {}}"#);
    let text = Bert::from_pretrained(&folder.0).unwrap_err().to_string();
    assert!(
        text.contains("found both; remove the older of the two"),
        "{text}"
    );
}

/// Writes a folder of sentence-transformers, and changes a file.
fn sentence_folder(case: &Value, change: Option<(&str, &str, Value)>) -> Folder {
    let golden = golden();
    let bert = &golden["models"]["bert"];
    let folder = saved("sentences", &bert["config"], &bert["shapes"]);
    let module = |kind: &str, path: &str| json!({"idx": 0, "name": "0", "path": path, "type": format!("sentence_transformers.models.{kind}")});
    let mut modules = vec![module("Transformer", ""), module("Pooling", "1_Pooling")];
    let is_mean = case["mode"] == "mean";
    let mut files = BTreeMap::from([
        (
            "config_sentence_transformers.json",
            json!({"prompts": {}, "default_prompt_name": null}),
        ),
        (
            "sentence_bert_config.json",
            json!({"max_seq_length": 16, "do_lower_case": false}),
        ),
        (
            "1_Pooling/config.json",
            json!({"word_embedding_dimension": 16, "pooling_mode_mean_tokens": is_mean, "pooling_mode_cls_token": !is_mean, "pooling_mode_max_tokens": false}),
        ),
    ]);
    for part in ["1_Pooling", "2_Dense", "3_Normalize"] {
        std::fs::create_dir_all(folder.0.join(part)).unwrap();
    }
    if let Some(activation) = case["activation"].as_str() {
        modules.push(module("Dense", "2_Dense"));
        files.insert("2_Dense/config.json", json!({"in_features": 16, "out_features": 8, "bias": true, "activation_function": activation}));
        let dense = folder.0.join("2_Dense/model.safetensors");
        let names = checkpoint::SaveOptions::new().names(checkpoint::WeightNames::dotted());
        checkpoint::save_with(dense, &values(&golden["sentences"]["shapes"], ""), &names).unwrap();
    }
    if case["normalize"] == true {
        modules.push(module("Normalize", "3_Normalize"));
        files.insert("3_Normalize/config.json", json!({}));
    }
    files.insert("modules.json", Value::Array(modules));
    if let Some((file, pointer, value)) = change {
        let file = files.get_mut(file).unwrap();
        match pointer.rsplit_once('/') {
            Some((parent, key)) => file.pointer_mut(parent).unwrap()[key] = value,
            None => *file = value,
        }
    }
    for (name, content) in &files {
        folder.write(name, &content.to_string());
    }
    folder
}

/// Also for a text without a token.
#[test]
fn sentences_are_embedded_as_by_sentence_transformers() {
    let golden = golden()["sentences"].clone();
    let ids: Vec<Vec<i32>> = serde_json::from_value(golden["ids"].clone()).unwrap();
    for case in golden["cases"].as_array().unwrap() {
        let mut bert = Bert::from_pretrained(&sentence_folder(case, None).0).unwrap();
        let found = bert.embed(&Tokens::new(&ids));
        for (row, expected) in case["output"].as_array().unwrap().iter().enumerate() {
            // In the original, the first token of an empty text is padding.
            if row < 2 || case["mode"] == "mean" {
                let found = found.index(ix![row as i32]).to_vec::<f32>();
                assert_near(&format!("{case}, {row}"), &found, expected, 1e-4);
            }
        }
        assert!(
            found
                .to_vec::<f32>()
                .iter()
                .all(|number| number.is_finite()),
            "{case}"
        );
        let has_norm = bert.layers.last() == Some(&SentenceLayer::Normalize);
        assert_eq!(has_norm, case["normalize"] == true);
        let alone = bert.embed(&Tokens::new(&[vec![]]));
        assert!(
            alone
                .to_vec::<f32>()
                .iter()
                .all(|number| number.is_finite())
        );
    }
}

#[test]
fn settings_of_sentences_are_used_or_refused() {
    let case = golden()["sentences"]["cases"]
        .as_array()
        .unwrap()
        .last()
        .unwrap()
        .clone();
    let dense = "2_Dense/config.json";
    let pooling = "1_Pooling/config.json";
    let st = "sentence_bert_config.json";
    for (file, pointer, value) in [
        (dense, "/in_features", json!(15)),
        (
            dense,
            "/activation_function",
            json!("torch.nn.modules.activation.Mish"),
        ),
        (dense, "/use_residual", json!(true)),
        (dense, "/module_input_name", json!("token_embeddings")),
        (dense, "/module_output_name", json!("other")),
        (dense, "/gain", json!(2)),
        (
            "3_Normalize/config.json",
            "/module_input_name",
            json!("token_embeddings"),
        ),
        (pooling, "/pooling_mode_max_tokens", json!(true)),
        (pooling, "/pooling_mode_weightedmean_tokens", json!(true)),
        (pooling, "/pooling_mode_mean_tokens", json!(true)),
        (pooling, "/pooling_mode", json!("lasttoken")),
        (pooling, "/surprise", json!(1)),
        (
            "config_sentence_transformers.json",
            "/default_prompt_name",
            json!("query"),
        ),
        (
            "config_sentence_transformers.json",
            "/truncate_dim",
            json!(4),
        ),
        (st, "/do_lower_case", json!(true)),
        (st, "/query_length", json!(3)),
        (
            "modules.json",
            "/2/type",
            json!("sentence_transformers.models.LayerNorm"),
        ),
        ("modules.json", "/0/path", json!("0_Transformer")),
        (
            "modules.json",
            "/1/type",
            json!("sentence_transformers.models.Normalize"),
        ),
        ("modules.json", "/2/kwargs", json!(["task"])),
        ("modules.json", "", json!([])),
    ] {
        let what = format!("{file}{pointer}");
        let folder = sentence_folder(&case, Some((file, pointer, value.clone())));
        let text = Bert::from_pretrained(&folder.0)
            .expect_err(&what)
            .to_string();
        let key = pointer
            .rsplit('/')
            .next()
            .unwrap()
            .split("_mode")
            .next()
            .unwrap();
        assert!(text.contains(file) && text.contains(key), "{what}: {text}");
    }
    // What has no effect.
    for (file, pointer, value) in [
        (pooling, "/word_embedding_dimension", json!(17)),
        (pooling, "/include_prompt", json!(false)),
        (pooling, "/pooling_mode", json!("cls")),
        (dense, "/module_output_name", json!("sentence_embedding")),
        ("modules.json", "/2/name", json!("dense")),
        (
            "config_sentence_transformers.json",
            "/prompts",
            json!({"query": "q: "}),
        ),
        (st, "/max_seq_length", json!(8)),
    ] {
        let mut bert =
            Bert::from_pretrained(&sentence_folder(&case, Some((file, pointer, value))).0).unwrap();
        let found = bert.embed(&Tokens::new(&[vec![3, 1, 4, 1, 5]]));
        assert_near(pointer, &found.to_vec::<f32>(), &case["output"][0], 1e-4);
    }
}
