//! The errors of loading a model.

use std::fmt::{self, Write as _};
use std::io;
use std::path::PathBuf;

use pytree_io::checkpoint::CheckpointError;

/// The reason why a model or its tokenizer is not loaded.
#[non_exhaustive]
#[derive(thiserror::Error)]
pub enum ModelError {
    /// A file or the folder cannot be read.
    #[error("cannot read `{}`: {source}; download the folder of a model with `hf download NAME --local-dir FOLDER`, and give its path", .path.display())]
    Io {
        /// The path of the file or the folder.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A file is not JSON, or is not a JSON object.
    #[error("cannot read `{}`: expected a JSON object, {problem}; download the file again", .path.display())]
    Json {
        /// The path of the file.
        path: PathBuf,
        /// What was found.
        problem: String,
    },
    /// The folder has no weights that can be loaded, or several files that could be meant.
    #[error("cannot load weights from `{}`: expected `model.safetensors` or `model.safetensors.index.json`, found {found}; {fix}", .folder.display())]
    Weights {
        /// The path of the folder.
        folder: PathBuf,
        /// The files that were found.
        found: String,
        /// How to get the weights.
        fix: String,
    },
    /// The configuration describes another model, or one that this library does not have.
    #[error("cannot build the model of `{}`:{}", .path.display(), Lines(.problems))]
    Config {
        /// The path of `config.json`.
        path: PathBuf,
        /// All problems.
        problems: Vec<ConfigProblem>,
    },
    /// The weights cannot be read, or do not fit the configuration.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The tokenizer cannot be read, or cannot encode or decode a text.
    #[error("cannot use the tokenizer of `{}`: {problem}", .folder.display())]
    Tokenizer {
        /// The path of the folder.
        folder: PathBuf,
        /// The message of the crate `tokenizers`.
        problem: String,
    },
    /// A text cannot be continued.
    #[error("cannot generate tokens:{}", Lines(.problems))]
    Generate {
        /// All problems.
        problems: Vec<String>,
    },
}

impl fmt::Debug for ModelError {
    /// Writes the message, because `unwrap` and a `main` that returns the error print the debug form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A value of a `config.json` that does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigProblem {
    /// The key, or the keys and the operation between them.
    pub key: String,
    /// What was expected, and how to fix it.
    pub expected: String,
    /// The value in the file; `None` if the file does not have the key.
    pub found: Option<String>,
}

/// The problems, each on its own line.
struct Lines<'p, P>(&'p [P]);

impl<P: fmt::Display> fmt::Display for Lines<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|problem| {
            f.write_str("\n  ")?;
            problem.fmt(f)
        })
    }
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: expected {}, ", self.key, self.expected)?;
        match &self.found {
            Some(found) => write!(f, "found {found}"),
            None => f.write_str("but the file has no such key"),
        }
    }
}

/// Returns the beginning of a text, so that a message stays short.
pub(crate) fn shortened(text: &str) -> String {
    let mut short: String = text.chars().take(60).collect();
    if short.len() < text.len() {
        let _ = short.write_str("…");
    }
    short
}
