//! Files of models whose leaves are arrays of any library.
//!
//! - [`checkpoint`] saves and loads the leaves of any pytree, also with the names and layouts of PyTorch and Flax.
//! - [`parts`] saves arrays that several processes hold together.
//! - [`files`] writes any file atomically.
//! - [`npy`] and `npz`, with the feature `npz`, are the formats of NumPy.
//!
//! A leaf is stored if it is an [`ArrayLeaf`](pytree_core::ArrayLeaf).

mod elements;
pub mod files;
mod format;
mod loading;
mod names;
mod numpy;
mod report;
mod saving;
mod shards;

pub use crate::saving::goal::Goal;

/// Saves and loads the leaves of any pytree in a safetensors file.
///
/// A leaf is stored under its key path; a shared leaf is stored once. Saving writes a temporary file and renames it, so
/// the path never has an incomplete file. The metadata of a file contain the version of the format and a checksum, so a
/// damaged file is rejected. Loading first compares the whole file with a template and then builds a new value. If a
/// leaf does not match, nothing is loaded. The template may have leaves of other libraries than the value that was saved.
///
/// [`WeightNames`](checkpoint::WeightNames) load and save files with the names and layouts of other libraries, such as PyTorch.
/// [`arrays`](checkpoint::arrays()) reads a file without a template. [`CheckpointFolder`](checkpoint::CheckpointFolder) keeps the last and
/// the best checkpoints of a training run.
pub mod checkpoint {
    #[cfg(feature = "ndarray")]
    pub use crate::loading::arrays::arrays;
    pub use crate::loading::arrays::{arrays_where, nested_arrays};
    pub use crate::loading::blank::Blank;
    pub use crate::loading::entries::{Entry, headers, inspect, metadata, statics};
    pub use crate::loading::load::{load, load_leaves, load_with};
    pub use crate::loading::location::{Bytes, Location};
    #[cfg(feature = "ndarray")]
    pub use crate::loading::ndarrays::ndarrays;
    pub use crate::loading::options::LoadOptions;
    pub use crate::names::layers::WeightLayout;
    pub use crate::names::weight_names::WeightNames;
    pub use crate::report::error::CheckpointError;
    pub use crate::report::guess::OtherPrefix;
    pub use crate::report::load_report::{Converted, LoadReport, OtherEpsilon};
    pub use crate::report::mismatch::{AxisMismatch, Mismatch, StaticMismatch};
    pub use crate::saving::folder::{CheckpointFolder, FolderOptions, Saved, SavedMetric};
    pub use crate::saving::goal::Goal;
    pub use crate::saving::save::{SaveOptions, save, save_with, to_bytes, to_bytes_with};
}

/// Saves arrays that several processes hold together, such as those on a mesh of devices. Each process writes the parts that it holds.
///
/// [`checkpoint::load`](crate::checkpoint::load()) and the other functions that read checkpoints accept the path of the folder.
pub mod parts {
    pub use crate::saving::divided::{DividedLeaves, LeafPart, Writers, save_parts};
    pub use crate::saving::part_file::ReadPart;
}

/// Reads and writes NumPy's files of arrays, `.npy`.
pub mod npy {
    pub use crate::numpy::npy::{ArrayReader, NpyError, encode, save};
}

/// Reads NumPy's archives of arrays, `.npz`.
#[cfg(feature = "npz")]
pub mod npz {
    pub use crate::numpy::npz::{EachArray, NpzError, read};
}

// Compiles and runs the programs of the page, which need this crate and `pytree-core` only.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../docs/how-to/core-alone.md")]
    struct CoreAlone;
}
