//! Errors of checkpoints. [`CheckpointError::Mismatch`] lists all leaves that differ between a file and its template.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::io;
use std::path::PathBuf;

use pytree_core::TreeError;
use pytree_transform::{AbstractArray, DType, TensorError};
use thiserror::Error;

use crate::checkpoint::OtherPrefix;
use crate::checkpoint::matching::with_shape;

/// A checkpoint cannot be written or read.
#[derive(Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The operating system reported an error.
    #[error("cannot {operation} the checkpoint `{}`: {source}", .path.display())]
    Io {
        /// The operation that failed: `read` or `write`.
        operation: &'static str,
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The operating system reported an error for a [`CheckpointFolder`](crate::checkpoint::CheckpointFolder).
    #[error("cannot {operation} the folder of checkpoints `{}`: {source}", .path.display())]
    Folder {
        /// The operation that failed: `create`, `list` or `remove an old checkpoint from`.
        operation: &'static str,
        /// The path of the folder.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file is not a safetensors file.
    #[error("cannot read the checkpoint `{}`: it is not a safetensors file ({problem}); give the path of a file that `save` wrote", .path.display())]
    Format {
        /// The path of the file.
        path: PathBuf,
        /// The defect of the file.
        problem: String,
    },
    /// The file has another format that is known, such as that of `torch.save`, or is a web page.
    #[error("cannot read the checkpoint `{}`: expected a safetensors file, found {found}; {fix}", .path.display())]
    OtherFormat {
        /// The path of the file.
        path: PathBuf,
        /// What the file is.
        found: &'static str,
        /// How to get a safetensors file.
        fix: &'static str,
    },
    /// An archive of NumPy cannot be read.
    #[cfg(feature = "npz")]
    #[error(transparent)]
    Npz(#[from] crate::data::npz::NpzError),
    /// A matrix has the same shape in the layouts of this library and of PyTorch, and the file does not say which layout it
    /// has.
    #[error("cannot load the checkpoint `{}`: {name} is {found} in the file, and {sign}, so it may be `[in, out]` or, as in PyTorch, `[out, in]`; load it with `LoadOptions::new().names(WeightNames::pytorch())`, or with `WeightNames::dotted()` if it is `[in, out]`", .path.display())]
    UnknownLayout {
        /// The path of the file.
        path: PathBuf,
        /// The name of the leaf.
        name: String,
        /// The dtype and shape in the file.
        found: String,
        /// What the file says, or does not say.
        sign: &'static str,
    },
    /// The file is shorter or longer than its header says.
    #[error("cannot read the checkpoint `{}`: expected {expected} bytes, found {found}; the file was cut off or damaged: copy it again, or load an earlier checkpoint", .path.display())]
    Length {
        /// The path of the file.
        path: PathBuf,
        /// The length of the file according to its header, in bytes.
        expected: usize,
        /// The actual length of the file, in bytes.
        found: usize,
    },
    /// The file has a newer format version than this library reads.
    #[error("cannot read the checkpoint `{}`: expected a format up to version {newest}, found version {found}; load it with a later version of this library, or use that version to save it in format version {newest}", .path.display())]
    Version {
        /// The path of the file.
        path: PathBuf,
        /// The newest format version that this library reads.
        newest: u32,
        /// The format version of the file.
        found: String,
    },
    /// The content of the file does not match its checksum.
    #[error("cannot read the checkpoint `{}`: expected content with the checksum {expected}, found {found}; the file was changed or damaged after it was saved: copy it again, or load an earlier checkpoint", .path.display())]
    Checksum {
        /// The path of the file.
        path: PathBuf,
        /// The checksum in the file's metadata, or `none`.
        expected: String,
        /// The checksum of the content.
        found: String,
    },
    /// The leaves of the file differ from the leaves of the template.
    #[error("cannot load the checkpoint `{}`:{}{}\n{}", .path.display(), prefixed(.prefix.as_deref()), list(.mismatches), advice(.mismatches))]
    Mismatch {
        /// The path of the file.
        path: PathBuf,
        /// Each leaf that differs between the file and the template.
        mismatches: Vec<Mismatch>,
        /// The prefix whose replacement resolves most mismatches, if there is one.
        prefix: Option<Box<OtherPrefix>>,
    },
    /// A leaf has no value that can be saved.
    #[error("cannot save {name}: {source}")]
    Value {
        /// The name of the leaf.
        name: String,
        /// The reason why the value cannot be read.
        source: Box<TensorError>,
    },
    /// A leaf has a dtype that checkpoints do not support.
    #[error(
        "cannot save {name}: expected a dtype of safetensors, found {found}; convert the tensor first"
    )]
    DType {
        /// The name of the leaf.
        name: String,
        /// The dtype of the leaf.
        found: DType,
    },
    /// Two leaves have the same path.
    #[error(
        "cannot save two leaves with the same name {name}: two keys of a map are displayed as the same text; change one of the keys"
    )]
    SameName {
        /// The path of both leaves.
        name: String,
    },
    /// A leaf would have the name of the metadata in the file.
    #[error(
        "cannot save {name}: safetensors files have their metadata under the name `__metadata__`, so no tensor can have it; rename the field or the key, or name the leaf with `WeightNames::rename`"
    )]
    ReservedName {
        /// The name of the leaf.
        name: String,
    },
    /// The parts of a tensor that the file has in one cannot be joined: see
    /// [`WeightNames::split`](crate::checkpoint::WeightNames::split).
    #[error(
        "cannot save {name}: the file has it as a part of `{stored}`, but the parts {parts:?} cannot be joined; name all parts of `{stored}` in `WeightNames::split`, with dtypes and shapes that fit each other"
    )]
    Parts {
        /// The name of the first part in the model.
        name: String,
        /// The name of the tensor in the file.
        stored: String,
        /// The names of all parts that the model has.
        parts: Vec<String>,
    },
    /// A key of the user's metadata begins with `pytree.`.
    #[error(
        "cannot save the metadata `{key}`: keys that begin with `pytree.` belong to this library; choose another key"
    )]
    MetadataKey {
        /// The key.
        key: String,
    },
    /// The index of a checkpoint of several files is invalid.
    #[error("cannot read the index of the checkpoint `{}`: {problem}; copy the whole folder again, or load an earlier checkpoint", .path.display())]
    Index {
        /// The path of the index.
        path: PathBuf,
        /// The defect of the index.
        problem: String,
    },
    /// A file of a checkpoint of several files is missing or damaged, or does not fit the others.
    #[error("cannot read {name} of the checkpoint `{}`: {problem}; copy all files of the folder again, or load an earlier checkpoint", .path.display())]
    Part {
        /// The path of the file, or of the index if no file has the part.
        path: PathBuf,
        /// The name of the tensor or of its part.
        name: String,
        /// The defect.
        problem: String,
    },
    /// A leaf cannot be saved by shards under the names of another library, because it has another layout there.
    #[error(
        "cannot save {name} by shards: the names of `SaveOptions::names` give it another layout, and a part of it cannot be transposed or joined; save with the names of this library, load the folder on one host, and save it there with `save_with`"
    )]
    Layout {
        /// The name of the leaf.
        name: String,
    },
    /// Another process could not write its part of a checkpoint, so the checkpoint is not complete.
    #[error("cannot save the checkpoint `{}`: the process of rank {rank} could not write its part; the error of that process says why", .path.display())]
    Process {
        /// The path of the folder.
        path: PathBuf,
        /// The rank of the process.
        rank: usize,
    },
    /// A loaded tensor cannot be put where the template has it.
    #[error("cannot put {name} of a checkpoint on the device of its template: {source}")]
    Place {
        /// The name of the leaf.
        name: String,
        /// The error of the device.
        source: Box<TensorError>,
    },
    /// Tensors of a file that is loaded without a template have dtypes that this library has not.
    #[error("cannot read the tensors of `{}`: this library has no dtypes {}; read the other tensors with `tensors_where`, or load them into a template with `load_with`", .path.display(), .tensors.join(", "))]
    UnknownDTypes {
        /// The path of the file.
        path: PathBuf,
        /// The name and the dtype of each of these tensors.
        tensors: Vec<String>,
    },
    /// A name is a tensor, and another name is below it.
    #[error("cannot nest the names of `{}`: `{name}` is a tensor, and `{below}` is below it; read the file with `tensors`, or choose another separator", .path.display())]
    Nested {
        /// The path of the file.
        path: PathBuf,
        /// The name of a tensor.
        name: String,
        /// A name that begins with `name` and a separator.
        below: String,
    },
    /// The value cannot be built from the structure of the template and the loaded leaves.
    #[error("cannot rebuild the template: {0}")]
    Tree(#[from] TreeError),
}

/// A leaf that differs between a checkpoint and its template.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mismatch {
    /// The leaf is in the template but not in the file.
    Missing {
        /// The name of the leaf.
        name: String,
        /// The dtype and shape in the template.
        expected: AbstractArray,
        /// The most similar name that only the file has.
        nearest: Option<String>,
        /// The name that the leaf must have in the file, if it differs from `name`.
        stored: Option<String>,
    },
    /// The leaf is in the file but not in the template.
    Unexpected {
        /// The name of the leaf.
        name: String,
        /// The dtype and shape in the file.
        found: String,
        /// The most similar name that only the template has.
        nearest: Option<String>,
    },
    /// Two leaves of the file are renamed to the same name.
    SameName {
        /// The new name of both leaves.
        name: String,
        /// The names of the two leaves in the file.
        stored: [String; 2],
    },
    /// The file has two tensors that [`WeightNames::tied`](crate::checkpoint::WeightNames::tied) names, and they differ.
    NotTied {
        /// The names of the two tensors in the file.
        stored: [String; 2],
    },
    /// A rule of [`WeightNames`](crate::checkpoint::WeightNames) matches no leaf of the template. This is not an error
    /// in itself, but may explain other mismatches.
    UnusedRule {
        /// The path in the file.
        file: String,
        /// The path in the template, or the paths of the parts.
        model: String,
    },
    /// The file has names of PyTorch, and is loaded without [`LoadOptions::names`](crate::checkpoint::LoadOptions::names). This
    /// explains other mismatches.
    PyTorchNames {
        /// What files of PyTorch have.
        sign: String,
    },
    /// The shape or the dtype of the leaf in the file differs from its shape or dtype in the template.
    Different {
        /// The name of the leaf.
        name: String,
        /// The dtype and shape in the template.
        expected: AbstractArray,
        /// The dtype and shape in the file.
        found: String,
        /// The named axes of the leaf in the template, if its module declares them.
        axes: Option<Vec<String>>,
        /// The named axes whose lengths differ.
        lengths: Vec<AxisMismatch>,
        /// The name of the leaf in the file, if it differs from `name`.
        stored: Option<String>,
        /// The shape that the tensor in the file must have, if it differs from the shape in the template.
        stored_shape: Option<Vec<usize>>,
        /// The library whose layout has `stored_shape`, as `PyTorch's`, if `LoadOptions::names` names one.
        layout: Option<String>,
        /// What the user can do.
        hint: Option<String>,
    },
}

/// A named axis whose length in a checkpoint differs from its length in the template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AxisMismatch {
    /// The name of the axis, or the computation of its length.
    pub axis: String,
    /// The length in the template.
    pub expected: usize,
    /// The length in the file.
    pub found: usize,
}

impl fmt::Display for AxisMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            axis,
            expected,
            found,
        } = self;
        write!(
            f,
            "{axis} is {found} in the file and {expected} in the model"
        )
    }
}

impl fmt::Display for Mismatch {
    /// Writes the name of the leaf, the values in the template and in the file, and the most similar name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suggestion = |nearest: &Option<String>| match nearest {
            Some(name) => format!("; did you mean {}?", shown(name)),
            None => String::new(),
        };
        let line = match self {
            Mismatch::Missing {
                name,
                expected,
                nearest,
                stored,
            } => {
                let absent = match stored {
                    Some(stored) => format!("`{}`", shown(stored)),
                    None => "leaf with this name".to_owned(),
                };
                format!(
                    "{}: expected {expected}, but the file has no {absent}{}",
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
                    "{}: found {found}, but the template has no leaf with this name{}",
                    shown(name),
                    suggestion(nearest)
                )
            }
            Mismatch::SameName {
                name,
                stored: [first, second],
            } => {
                let (name, first, second) = (shown(name), shown(first), shown(second));
                format!("{name}: {first} and {second} are both renamed to this name")
            }
            Mismatch::NotTied {
                stored: [first, second],
            } => {
                let (first, second) = (shown(first), shown(second));
                format!(
                    "`{first}` and `{second}` differ, although `WeightNames::tied` says that they are the same: load them into two leaves"
                )
            }
            Mismatch::UnusedRule { file, model } => {
                format!(
                    "the template has no leaf at {model}, to which `WeightNames` give the path `{file}` in the file"
                )
            }
            Mismatch::PyTorchNames { sign } => {
                format!(
                    "the file has {sign}, as files of PyTorch have: load it with `LoadOptions::new().names(WeightNames::pytorch())`"
                )
            }
            Mismatch::Different {
                name,
                expected,
                found,
                axes,
                lengths,
                stored,
                stored_shape,
                layout,
                hint,
            } => {
                let mut line = format!("{} is {found} in the file", shown(name));
                if let Some(stored) = stored {
                    let _ = write!(line, " as `{}`", shown(stored));
                }
                line.push_str(", expected ");
                if let Some(axes) = axes {
                    let _ = write!(line, "[{}] = ", axes.join(" "));
                }
                let _ = write!(line, "{expected}");
                if let Some(shape) = stored_shape {
                    let _ = write!(
                        line,
                        ", which in {} layout is {}",
                        layout.as_deref().unwrap_or("the file's"),
                        with_shape(expected, shape)
                    );
                }
                for (position, length) in lengths.iter().enumerate() {
                    let before = if position == 0 { ": " } else { ", " };
                    let _ = write!(line, "{before}{length}");
                }
                if let Some(hint) = hint {
                    let _ = write!(line, "; {hint}");
                }
                line
            }
        };
        f.write_str(&line)
    }
}

pytree_core::debug_as_display!(CheckpointError);

/// The maximum number of mismatches that a message lists. Further mismatches are only counted.
const LISTED: usize = 20;

/// The maximum number of characters of a name that a message shows.
const SHOWN: usize = 200;

/// Returns a name for a message. A long name is shortened in the middle.
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

/// Returns what the user can do about the mismatches.
fn advice(mismatches: &[Mismatch]) -> String {
    let mut text = match mismatches.iter().find_map(other_schedule) {
        Some(place) => format!(
            "the file has another kind of schedule at `{}`: make the optimizer with the kind that was saved, and change it \
             after the load with `Optimizer::set_learning_rate`; or ",
            shown(place)
        ),
        None => String::new(),
    };
    text += "load it into a model with the saved structure, rename leaves with `LoadOptions::rename_with`, ";
    let has = |wanted: fn(&Mismatch) -> bool| mismatches.iter().any(wanted);
    if has(|mismatch| matches!(mismatch, Mismatch::Missing { .. })) {
        text.push_str("keep the template's values of missing leaves with `allow_missing()`, ");
    }
    if has(|mismatch| matches!(mismatch, Mismatch::Unexpected { .. })) {
        text.push_str("ignore unused leaves of the file with `allow_unused()`, or single leaves with `WeightNames::ignore`, ");
    }
    text.push_str("name the library that wrote the file with `LoadOptions::names`, or list the leaves of the file with `inspect`");
    text
}

/// Returns the path of the schedule if a leaf of a schedule is only in the file or only in the template.
fn other_schedule(mismatch: &Mismatch) -> Option<&str> {
    let (Mismatch::Missing { name, .. } | Mismatch::Unexpected { name, .. }) = mismatch else {
        return None;
    };
    let (schedule, _) = name.split_once(".function.")?;
    schedule.contains("steps[").then_some(schedule)
}

fn prefixed(prefix: Option<&OtherPrefix>) -> String {
    prefix.map_or_else(String::new, |prefix| format!(" {prefix}"))
}

pub(super) fn list<'m>(
    mismatches: impl IntoIterator<Item = &'m Mismatch, IntoIter: Clone>,
) -> String {
    let mut text = String::new();
    let mismatches = mismatches.into_iter();
    for mismatch in mismatches.clone().take(LISTED) {
        let _ = write!(text, "\n  {mismatch}");
    }
    let more = mismatches.skip(LISTED).count();
    if more > 0 {
        let _ = write!(text, "\n  and {more} more");
    }
    text
}
