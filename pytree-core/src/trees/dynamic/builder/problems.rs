//! The mistakes of the calls of a builder, which are reported together.

use crate::base::error::TreeError;
use crate::base::path::KeyPath;

/// The first mistakes, and the number of later mistakes.
#[derive(Debug, Default)]
pub(super) struct Problems {
    texts: Vec<String>,
    more: usize,
}

impl Problems {
    #[cold]
    pub(super) fn add(&mut self, path: impl FnOnce() -> KeyPath, what: &str) {
        if self.texts.len() == TOLD {
            self.more += 1;
            return;
        }
        self.texts.push(format!("in {}: {what}", path().or_root()));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// Returns all mistakes as an error.
    pub(super) fn into_error(self) -> TreeError {
        let Self { mut texts, more } = self;
        if more > 0 {
            texts.push(format!("and {more} more"));
        }
        TreeError::Build {
            node: "tree",
            reason: texts.join("; "),
        }
    }
}

/// The greatest number of mistakes that are reported. Further mistakes are only counted.
const TOLD: usize = 20;
