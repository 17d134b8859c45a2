//! Saves and loads the leaves of any pytree in a safetensors file.
//!
//! A leaf is stored under its key path; a shared leaf is stored once. Saving writes a temporary file and renames it, so
//! the path never has an incomplete file. The metadata of a file contain the version of the format and a checksum, so a
//! damaged file is rejected. Loading first compares the whole file with a template and then builds a new value. If a
//! leaf does not match, nothing is loaded.
//!
//! [`WeightNames`] load and save files with the names and layouts of other libraries, such as PyTorch. [`tensors`] reads a
//! file without a template. [`CheckpointFolder`] keeps the last and the best checkpoints of a training run.

mod bytes;
mod error;
mod file;
mod folder;
mod guess;
mod layout;
mod leaves;
mod load;
mod load_report;
mod matching;
mod metadata;
mod names;
mod other_format;
mod reading;
mod save;
mod sharded;
mod source;
mod tensors;

use pytree_core::ElementType;
use pytree_transform::DType;

use crate::checkpoint::bytes::dtype_name;
use crate::checkpoint::metadata::Metadata;
use crate::checkpoint::source::Source;

pub use crate::goal::Goal;
pub use error::{AxisMismatch, CheckpointError, Mismatch};
pub use folder::{CheckpointFolder, FolderOptions, Saved, SavedMetric};
pub use guess::OtherPrefix;
pub use load::{LoadOptions, load, load_as, load_with};
pub use load_report::{Converted, LoadReport, OtherEpsilon};
pub use names::{WeightLayout, WeightNames};
pub use save::{SaveOptions, save, save_with, to_bytes, to_bytes_with};
pub use sharded::{save_sharded, save_sharded_with};
pub use source::{Bytes, Location};
pub use tensors::{metadata, nested_tensors, tensors, tensors_where};

/// A leaf of a checkpoint: see [`inspect`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The key path of the leaf.
    pub name: String,
    /// The dtype of the leaf, for example `f32`.
    pub dtype: String,
    /// The length of each axis of the leaf.
    pub shape: Vec<usize>,
    /// The kind of the leaf, for example `Param`, if the leaf was saved from a module.
    pub kind: Option<String>,
    /// The named axes of the leaf, if the module that it was saved from declares them.
    pub axes: Option<Vec<String>>,
}

impl Entry {
    /// Returns whether this library has the dtype of the leaf. [`tensors`] reads only such leaves.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        ElementType::from_name(&self.dtype)
            .and_then(DType::from_element)
            .is_some()
    }
}

/// Lists the leaves of a checkpoint in the order of their names, without a template.
///
/// # Examples
/// ```
/// use pytree_io::checkpoint;
/// use pytree_nn::{Linear, Rngs};
/// let path = std::env::temp_dir().join("pytree-inspect-example.safetensors");
/// checkpoint::save(&path, &Linear::new(2, 3, &mut Rngs::new(0)))?;
/// let entries = checkpoint::inspect(&path)?;
/// assert_eq!(entries[1].name, "weight");
/// assert_eq!(entries[1].shape, [2, 3]);
/// # std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns [`CheckpointError::Io`], [`CheckpointError::Format`], [`CheckpointError::Length`],
/// [`CheckpointError::Version`] or [`CheckpointError::Checksum`].
pub fn inspect(path: impl Location) -> Result<Vec<Entry>, CheckpointError> {
    let mut file = Source::open(&path)?;
    let metadata = file.metadata()?;
    file.check_all(&metadata)?;
    Ok(entries(&file, &metadata))
}

/// Lists the leaves of a checkpoint like [`inspect`], but reads only the headers of its files, so the checksum is not compared.
///
/// # Errors
/// Returns [`CheckpointError::Io`], [`CheckpointError::Format`], [`CheckpointError::Length`] or [`CheckpointError::Version`].
pub fn headers(path: impl Location) -> Result<Vec<Entry>, CheckpointError> {
    let file = Source::open(&path)?;
    Ok(entries(&file, &file.metadata()?))
}

fn entries(file: &Source<'_>, metadata: &Metadata) -> Vec<Entry> {
    let (kinds, axes) = (metadata.kinds(), metadata.axes());
    let entries = file.tensors().into_iter().map(|(name, info)| Entry {
        kind: kinds.get(name.as_str()).map(|&kind| kind.to_owned()),
        axes: axes
            .get(name.as_str())
            .map(|axes| axes.split_whitespace().map(str::to_owned).collect()),
        dtype: dtype_name(info.dtype),
        shape: info.shape,
        name,
    });
    entries.collect()
}

#[cfg(test)]
mod tests;
