//! Errors of files of metrics.

use std::fmt;
use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// A file of metrics or a picture cannot be written or read.
#[derive(Error)]
#[non_exhaustive]
pub enum TrainingError {
    /// The operating system reported an error.
    #[error("cannot {operation} `{}`: {source}", .path.display())]
    Io {
        /// The operation that failed, such as `write the metrics to`.
        operation: &'static str,
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A line of a file of metrics is invalid.
    #[error("cannot read the metrics in `{}`: line {line}: expected {expected}, found {found}; remove the line, or write to another file", .path.display())]
    Line {
        /// The path of the file.
        path: PathBuf,
        /// The number of the line, starting at 1.
        line: usize,
        /// The expected content.
        expected: &'static str,
        /// The actual content.
        found: String,
    },
    /// Two metrics of a step have the same name, or a metric is named `step`.
    #[error(
        "cannot write the metrics of step {step}: the name `{name}` occurs twice; each name, also `step`, occurs once in a line"
    )]
    Name {
        /// The number of the step.
        step: usize,
        /// The name.
        name: String,
    },
}

impl fmt::Debug for TrainingError {
    /// Writes the same text as `Display`, because Rust prints the debug form if `unwrap` fails or if `main` returns the
    /// error.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
