//! What can go wrong with checkpoints, with all mismatches at once.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::io;
use std::path::PathBuf;

use pytree_core::TreeError;
use pytree_transform::{AbstractArray, DType, TensorError};
use thiserror::Error;

use crate::checkpoint::OtherPrefix;

/// A checkpoint can't be written or read.
#[derive(Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The file system refused.
    #[error("cannot {operation} the checkpoint `{}`: {source}", .path.display())]
    Io {
        /// What was being done.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The file is not a safetensors file.
    #[error("cannot read the checkpoint `{}`: it is not a safetensors file ({problem}); give the path of a file that `save` wrote", .path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The file is shorter or longer than it says.
    #[error("cannot read the checkpoint `{}`: expected {expected} bytes, found {found}; it was cut off or damaged: copy it again, or load an earlier one", .path.display())]
    Length {
        /// The file.
        path: PathBuf,
        /// The length that its header asks for.
        expected: usize,
        /// Its length.
        found: usize,
    },
    /// The file is of a later version of this library.
    #[error("cannot read the checkpoint `{}`: expected a format up to version {newest}, found version {found}; load it with a later version of this library, or save it again there in a format of version {newest}", .path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The newest version that is read.
        newest: u32,
        /// What the file says.
        found: String,
    },
    /// The file's content is not what was written.
    #[error("cannot read the checkpoint `{}`: expected content with the checksum {expected}, found {found}; it was changed or damaged after it was saved: copy it again, or load an earlier one", .path.display())]
    Checksum {
        /// The file.
        path: PathBuf,
        /// The checksum in the file's metadata, or `none`.
        expected: String,
        /// The checksum of its content.
        found: String,
    },
    /// The file holds other leaves than the template.
    #[error("cannot load the checkpoint `{}`:{}{}\nload it into what was saved, rename or leave out leaves by `load_with`, or look into it by `inspect`", .path.display(), prefixed(.prefix.as_ref()), list(.mismatches))]
    Mismatch {
        /// The file.
        path: PathBuf,
        /// Each leaf that does not fit.
        mismatches: Vec<Mismatch>,
        /// The beginning of names in the file that explains most mismatches, if there is one.
        prefix: Option<OtherPrefix>,
    },
    /// A leaf has no value to be saved.
    #[error("cannot save {name}: {source}")]
    Value {
        /// The leaf.
        name: String,
        /// Why it can't be read.
        source: TensorError,
    },
    /// A leaf has an element type that checkpoints don't hold.
    #[error(
        "cannot save {name}: expected bool, i32, i64, u32, f32 or f64, found {found}; convert it first"
    )]
    DType {
        /// The leaf.
        name: String,
        /// Its element type.
        found: DType,
    },
    /// Two leaves have the same path.
    #[error(
        "cannot save two leaves under the name {name}; the keys of a map display alike: change one of them"
    )]
    SameName {
        /// The path of both.
        name: String,
    },
    /// The template does not go together again.
    #[error("cannot rebuild the template: {0}")]
    Tree(#[from] TreeError),
}

/// A leaf that differs between a checkpoint and the template it is loaded into.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mismatch {
    /// In the template, not in the file.
    Missing {
        /// The leaf.
        name: String,
        /// What the template has.
        expected: AbstractArray,
        /// The name in the file that is most alike, of those that are not in the template.
        nearest: Option<String>,
    },
    /// In the file, not in the template.
    Unexpected {
        /// The leaf.
        name: String,
        /// What the file has.
        found: String,
        /// The name in the template that is most alike, of those that are not in the file.
        nearest: Option<String>,
    },
    /// Two leaves of the file are renamed to one.
    SameName {
        /// What both are renamed to.
        name: String,
        /// Their names in the file.
        stored: [String; 2],
    },
    /// Of another shape or element type.
    Different {
        /// The leaf.
        name: String,
        /// Element type and shape in the template.
        expected: AbstractArray,
        /// Element type and shape in the file.
        found: String,
    },
}

impl fmt::Debug for CheckpointError {
    /// As it displays: this is what a program prints that returns it from `main`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The most mismatches a message lists; the rest is counted.
const LISTED: usize = 20;

/// The most characters of a name that a message shows.
const SHOWN: usize = 200;

/// A name as a message shows it: of a long one, the beginning and the end.
fn shown(name: &str) -> Cow<'_, str> {
    let boundary = |index: usize| name.char_indices().nth(index).map(|(at, _)| at);
    let Some(_) = boundary(SHOWN) else {
        return Cow::Borrowed(name);
    };
    let start = &name[..boundary(SHOWN / 2).unwrap_or(0)];
    let end = name.char_indices().rev().nth(SHOWN / 2 - 1);
    let end = end.map_or("", |(at, _)| &name[at..]);
    Cow::Owned(format!("{start}…{end}"))
}

fn prefixed(prefix: Option<&OtherPrefix>) -> String {
    prefix.map_or_else(String::new, |prefix| format!(" {prefix}"))
}

pub(super) fn list<'m>(
    mismatches: impl IntoIterator<Item = &'m Mismatch, IntoIter: Clone>,
) -> String {
    let suggestion = |nearest: &Option<String>| match nearest {
        Some(name) => format!("; did you mean {}?", shown(name)),
        None => String::new(),
    };
    let mut text = String::new();
    let mismatches = mismatches.into_iter();
    for mismatch in mismatches.clone().take(LISTED) {
        let line = match mismatch {
            Mismatch::Missing {
                name,
                expected,
                nearest,
            } => {
                format!(
                    "{}: expected {expected}, not in the file{}",
                    shown(name),
                    suggestion(nearest)
                )
            }
            Mismatch::Unexpected {
                name,
                found,
                nearest,
            } => {
                format!(
                    "{}: found {found}, not in the template{}",
                    shown(name),
                    suggestion(nearest)
                )
            }
            Mismatch::SameName {
                name,
                stored: [first, second],
            } => {
                let (name, first, second) = (shown(name), shown(first), shown(second));
                format!("{name}: both {first} and {second} are renamed to it")
            }
            Mismatch::Different {
                name,
                expected,
                found,
            } => {
                format!("{}: expected {expected}, found {found}", shown(name))
            }
        };
        text.push_str("\n  ");
        text.push_str(&line);
    }
    let more = mismatches.skip(LISTED).count();
    if more > 0 {
        let _ = write!(text, "\n  and {more} more");
    }
    text
}
