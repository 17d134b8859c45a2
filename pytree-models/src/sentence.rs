//! The modules of sentence-transformers after the pooling.

use std::path::Path;

use pytree_core::{Module, shapes};
use pytree_io::checkpoint::WeightNames;
use pytree_nn::{Activation, Linear, LinearOptions};
use pytree_transform::{DType, Tensor};
use serde_json::Value;

use crate::error::{ConfigProblem, ModelError};
use crate::folder::Folder;
use crate::json::read_json;
use crate::llama_block::linear;
use crate::pooling::Pooling;
use crate::settings;

/// A layer after the pooling of [`Bert::embed`](crate::Bert::embed).
#[derive(Module, Clone, Debug, PartialEq)]
pub enum SentenceLayer {
    /// A linear layer and an activation. Its weights are in a folder of their own, such as `2_Dense`.
    Dense(Linear, #[r#static] Activation),
    /// Divides a vector by its length, or by 1e-12 if it is shorter.
    Normalize,
}

impl SentenceLayer {
    /// Applies the layer: `x: [batch, features]` to `[batch, outputs]`.
    #[shapes(x = "float[batch features]", return = "float[batch _]")]
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        match self {
            Self::Dense(linear, activation) => activation.forward(&linear.forward(x)),
            Self::Normalize => x / x.square().sum_keep([-1]).sqrt().maximum(1e-12),
        }
    }
}

/// Reads `modules.json`: the pooling, and the layers after it. `width` is the number of features of the pooling.
pub(crate) fn sentence_layers(
    folder: &Path,
    width: usize,
    floats: DType,
) -> Result<(Pooling, Vec<SentenceLayer>), ModelError> {
    for name in [
        "config_sentence_transformers.json",
        "sentence_bert_config.json",
    ] {
        settings::read(&folder.join(name), name)?;
    }
    let path = folder.join("modules.json");
    if !path.is_file() {
        return Ok((Pooling::read(folder)?, vec![SentenceLayer::Normalize]));
    }
    let mut modules = read_json(&path)?;
    let (mut pooling, mut layers, mut problems, mut width) = (None, vec![], vec![], width);
    for (place, module) in modules.as_array_mut().into_iter().flatten().enumerate() {
        let Some(module) = module.as_object_mut() else {
            continue;
        };
        problems.extend(settings::check(
            "modules.json",
            &format!("[{place}]."),
            module,
        ));
        let [kind, part] = ["type", "path"].map(|key| module.get(key).and_then(Value::as_str));
        let (kind, part) = (kind.unwrap_or_default(), part.unwrap_or_default());
        let name = kind
            .starts_with("sentence_transformers.")
            .then(|| kind.rsplit('.').next());
        let part = folder.join(part);
        match (place, name.flatten()) {
            (0, Some("Transformer")) if part == folder.join("") => {}
            (1, Some("Pooling")) => pooling = Some(Pooling::of_module(&part.join("config.json"))?),
            (2.., Some("Dropout")) => {}
            (2.., Some("Normalize")) => {
                settings::read(&part.join("config.json"), "Normalize")?;
                layers.push(SentenceLayer::Normalize);
            }
            (2.., Some("Dense")) => layers.push(dense(&part, &mut width, floats)?),
            _ => problems.push(ConfigProblem {
                key: format!("[{place}].type"),
                expected: "a `Transformer` with the path \"\", a `Pooling`, and then `Dense`, `Normalize` or `Dropout` of sentence_transformers".to_owned(),
                found: Some(Value::Object(module.clone()).to_string()),
            }),
        }
    }
    if pooling.is_none() && problems.is_empty() {
        problems.push(ConfigProblem {
            key: "[1].type".to_owned(),
            expected: "a list of modules with a `Pooling` after the `Transformer`".to_owned(),
            found: None,
        });
    }
    settings::refused(&path, problems)?;
    Ok((pooling.unwrap_or_default(), layers))
}

/// Loads a module `Dense`, whose number of inputs is `width`. Then `width` is the number of its outputs.
fn dense(path: &Path, width: &mut usize, floats: DType) -> Result<SentenceLayer, ModelError> {
    let mut folder = Folder::of_module("Dense", path.to_owned(), floats)?;
    folder.expect("in_features", *width);
    let [inputs, outputs] = ["in_features", "out_features"].map(|key| folder.size(key));
    folder.check_width("in_features");
    let options: LinearOptions = linear(folder.flag_or("bias", true));
    let key = "activation_function";
    let activation = match folder.text(key).strip_prefix("torch.nn.modules.") {
        Some("activation.Tanh") => Activation::Tanh,
        Some("activation.ReLU") => Activation::Relu,
        Some("activation.GELU") => Activation::GeluExact,
        Some("activation.SiLU") => Activation::Silu,
        Some("activation.Sigmoid") => Activation::Sigmoid,
        Some("linear.Identity") => Activation::Identity,
        _ => {
            let expected = "Tanh, ReLU, GELU, SiLU, Sigmoid or Identity of torch.nn.modules";
            folder.refuse(key, expected);
            Activation::Identity
        }
    };
    let renamed = |name: &str| name.strip_prefix("linear.").unwrap_or(name).to_owned();
    let linear = folder.load(WeightNames::pytorch(), renamed, |rngs| {
        Linear::with_options(inputs, outputs, options, rngs)
    })?;
    *width = outputs;
    Ok(SentenceLayer::Dense(linear, activation))
}
