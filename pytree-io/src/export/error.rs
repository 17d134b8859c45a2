//! Errors of exports.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// An exported program cannot be written or read.
#[derive(Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The operating system reported an error.
    #[error("cannot {operation} the exported program `{}`: {source}", .path.display())]
    Io {
        /// The operation that failed: `read` or `write`.
        operation: &'static str,
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file is not an exported program, or is damaged.
    #[error("cannot read the exported program `{}`: line {line}: expected {expected}, found {found}; {fix}", .path.display())]
    Format {
        /// The path of the file.
        path: PathBuf,
        /// The line number of the defect, starting at 1.
        line: usize,
        /// The expected content of the line.
        expected: String,
        /// The actual content of the line.
        found: String,
        /// How to repair the line.
        fix: &'static str,
    },
    /// The file has a newer format version than this library can read.
    #[error("cannot read the exported program `{}`: line 1: expected a format up to version {newest}, found version {found}; load it with a later version of this library", .path.display())]
    Version {
        /// The path of the file.
        path: PathBuf,
        /// The newest format version that this library reads.
        newest: u32,
        /// The format version of the file.
        found: u32,
    },
}

pytree_base::debug_as_display!(ExportError);
