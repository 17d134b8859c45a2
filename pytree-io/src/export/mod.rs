//! Programs in StableHLO as files that other tools can read.
//!
//! A file consists of two lines of comments and the text of one module. MLIR ignores the comments, so every tool of
//! MLIR can read the file. The first line names the format and its version. The second line lists the names, dtypes and
//! shapes of the inputs and outputs in JSON. `docs/reference/formats.md` specifies both lines. The text contains all constants,
//! so the file is complete.

mod error;
mod file;
mod program;
mod signature;

pub use self::error::ExportError;
pub use self::file::{load, save};
pub use self::program::{Exported, NamedArray};

#[cfg(test)]
mod tests;
