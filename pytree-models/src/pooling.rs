//! The pooling of embeddings of sentences.

use std::path::Path;

use pytree_core::Static;

use crate::error::{ConfigProblem, ModelError};
use crate::folder::read_object;

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
        if !path.is_file() {
            return Ok(Self::default());
        }
        let config = read_object(&path)?;
        let chosen = config
            .iter()
            .filter(|(_, value)| value.as_bool() == Some(true));
        let chosen: Vec<&str> = chosen
            .map(|(key, _)| key.as_str())
            .filter(|key| key.starts_with("pooling_mode_"))
            .collect();
        match *chosen {
            ["pooling_mode_mean_tokens"] => Ok(Self::Mean),
            ["pooling_mode_cls_token"] => Ok(Self::First),
            _ => Err(ModelError::Config {
                path,
                problems: vec![ConfigProblem {
                    key: "pooling_mode_…".to_owned(),
                    expected:
                        "`pooling_mode_mean_tokens` or `pooling_mode_cls_token` to be the only true one"
                            .to_owned(),
                    found: Some(format!("{chosen:?}")),
                }],
            }),
        }
    }
}
