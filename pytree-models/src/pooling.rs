//! The pooling of embeddings of sentences.

use std::path::Path;

use pytree_core::Static;
use pytree_transform::{Tensor, ix};
use serde_json::{Value, json};

use crate::error::{ConfigProblem, ModelError};
use crate::json::read_object;
use crate::settings;

/// How the vectors of the tokens become the vector of a sentence.
#[derive(Static, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Pooling {
    /// Their mean, without padding.
    #[default]
    Mean,
    /// The vector of the first token, `[CLS]`.
    First,
}

impl Pooling {
    /// Reads the pooling of a folder of sentence-transformers, `1_Pooling/config.json`. It is the mean if there is no such file.
    ///
    /// # Errors
    /// Returns [`ModelError::Config`] if the pooling is another one.
    pub fn read(folder: impl AsRef<Path>) -> Result<Self, ModelError> {
        let path = folder.as_ref().join("1_Pooling/config.json");
        if path.is_file() {
            Self::of_module(&path)
        } else {
            Ok(Self::default())
        }
    }

    /// Reads the configuration of a module.
    pub(crate) fn of_module(path: &Path) -> Result<Self, ModelError> {
        let mut config = read_object(path)?;
        settings::refused(path, settings::check("Pooling", "", &mut config))?;
        let old = ["pooling_mode_mean_tokens", "pooling_mode_cls_token"];
        let chosen = old.map(|key| config.get(key).and_then(Value::as_bool) == Some(true));
        let key = "pooling_mode";
        match (config.get(key), chosen) {
            (Some(mode), _) if mode == "mean" || *mode == json!(["mean"]) => Ok(Self::Mean),
            (Some(mode), _) if mode == "cls" || *mode == json!(["cls"]) => Ok(Self::First),
            (None, [_, false]) => Ok(Self::Mean),
            (None, [false, true]) => Ok(Self::First),
            (mode, _) => Err(ModelError::Config {
                path: path.to_owned(),
                problems: vec![ConfigProblem {
                    key: key.to_owned(),
                    expected: "\"mean\" or \"cls\", because this model has nothing else".to_owned(),
                    found: Some(mode.map_or_else(|| format!("both {old:?}"), Value::to_string)),
                }],
            }),
        }
    }

    /// Pools the vectors of tokens: `x: [batch, tokens, features]` to `[batch, features]`. The mean is a sum if vectors are divided by their
    /// lengths next.
    #[track_caller]
    pub(crate) fn pool(self, x: &Tensor, mask: &Tensor, is_normalized: bool) -> Tensor {
        let mask = mask.expand_dims(-1);
        // Vectors of padding may be NaN.
        let x = mask.select(x, Tensor::zeros(x.dtype(), []));
        match self {
            Self::Mean if is_normalized => x.sum_axes([1]),
            Self::Mean => x.sum_axes([1]) / mask.convert(x.dtype()).sum_axes([1]).maximum(1.0),
            Self::First => x.index(ix![.., 0]),
        }
    }
}
