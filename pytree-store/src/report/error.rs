//! Errors of checkpoints. [`CheckpointError::Mismatch`] lists all leaves that differ between a file and its template.

use std::io;
use std::path::PathBuf;

use pytree_core::{ElementType, LeafError, TreeError};
use thiserror::Error;

#[cfg(feature = "npz")]
use crate::numpy::npz::NpzError;
use crate::report::guess::OtherPrefix;
use crate::report::mismatch::{Mismatch, advice, list, prefixed};

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
    Npz(#[from] NpzError),
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
        source: LeafError,
    },
    /// The value of a static field has no form that can be saved.
    #[error("cannot save the static field {name}: {problem}")]
    Static {
        /// The name of the field.
        name: String,
        /// The error of serde.
        problem: String,
    },
    /// A leaf is neither an array nor a number.
    #[error(
        "cannot save or load {name}: expected an array or a number, found a leaf of type `{found}`, which has no dtype and no elements; mark a field that is part of the structure with `#[r#static]`, implement `ArrayLeaf` for the type, or save a part without this leaf: `partition::filter`"
    )]
    NotAnArray {
        /// The name of the leaf.
        name: String,
        /// The type of the leaf.
        found: &'static str,
    },
    /// A leaf has a dtype that checkpoints do not support.
    #[error(
        "cannot save {name}: expected a dtype of safetensors, found {found}; convert the tensor first"
    )]
    DType {
        /// The name of the leaf.
        name: String,
        /// The dtype of the leaf.
        found: ElementType,
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
        source: LeafError,
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

pytree_base::debug_as_display!(CheckpointError);
