//! Lists the leaves of a checkpoint, and reads its metadata.

use std::collections::BTreeMap;

use safetensors::tensor::TensorInfo;

use crate::format::bytes::{dtype_name, dtype_of};
use crate::format::metadata::Metadata;
use crate::loading::location::Location;
use crate::loading::source::{OpenCheckpoint, metadata_of};
use crate::report::error::CheckpointError;

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
    is_readable: bool,
}

impl Entry {
    /// Returns whether the reader has the dtype of the leaf. A reader of tensors has fewer dtypes than one of ndarrays.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.is_readable
    }
}

/// Lists the leaves of a checkpoint in the order of their names, without a template.
///
/// # Examples
/// ```
/// use ndarray::Array2;
/// use pytree_store::checkpoint;
/// let path = std::env::temp_dir().join("pytree-inspect-example.safetensors");
/// checkpoint::save(&path, &[Array2::<f32>::zeros((2, 3))])?;
/// let entries = checkpoint::inspect(&path)?;
/// assert_eq!(entries[0].name, "[0]");
/// assert_eq!(entries[0].shape, [2, 3]);
/// # std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns [`CheckpointError::Io`], [`CheckpointError::Format`], [`CheckpointError::Length`],
/// [`CheckpointError::Version`] or [`CheckpointError::Checksum`].
pub fn inspect(path: impl Location) -> Result<Vec<Entry>, CheckpointError> {
    let mut file = OpenCheckpoint::open(&path)?;
    let metadata = file.metadata()?;
    file.check_all(&metadata)?;
    Ok(entries(&file, &metadata, |_| true))
}

/// Lists the leaves of a checkpoint like [`inspect`], but reads only the headers of its files, so the checksum is not compared.
///
/// # Errors
/// Returns [`CheckpointError::Io`], [`CheckpointError::Format`], [`CheckpointError::Length`] or [`CheckpointError::Version`].
pub fn headers(path: impl Location) -> Result<Vec<Entry>, CheckpointError> {
    let file = OpenCheckpoint::open(&path)?;
    Ok(entries(&file, &file.metadata()?, |_| true))
}

/// Lists the leaves of a checkpoint. `is_readable` decides which are readable of those whose dtypes this library knows.
pub(super) fn entries(
    file: &OpenCheckpoint<'_>,
    metadata: &Metadata,
    is_readable: impl Fn(&TensorInfo) -> bool,
) -> Vec<Entry> {
    let (kinds, axes) = (metadata.kinds(), metadata.axes());
    let entries = file.tensors().into_iter().map(|(name, info)| Entry {
        kind: kinds.get(name.as_str()).map(|&kind| kind.to_owned()),
        axes: axes
            .get(name.as_str())
            .map(|axes| axes.split_whitespace().map(str::to_owned).collect()),
        is_readable: dtype_of(info.dtype).is_some() && is_readable(&info),
        dtype: dtype_name(info.dtype),
        shape: info.shape,
        name,
    });
    entries.collect()
}

/// Reads the metadata that a user added to a file with [`SaveOptions::metadata`](crate::checkpoint::SaveOptions::metadata),
/// or that another program wrote. Reads only the header of the file, so the checksum is not compared.
///
/// # Examples
/// ```
/// use pytree_store::checkpoint::{self, SaveOptions};
/// let path = std::env::temp_dir().join("pytree-metadata-example.safetensors");
/// let options = SaveOptions::new().metadata("vocabulary", "abc");
/// checkpoint::save_with(&path, &[1.0_f32], &options)?;
/// assert_eq!(checkpoint::metadata(&path)?["vocabulary"], "abc");
/// # std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns [`CheckpointError::Io`], [`CheckpointError::Format`], [`CheckpointError::Length`] or
/// [`CheckpointError::Version`].
pub fn metadata(path: impl Location) -> Result<BTreeMap<String, String>, CheckpointError> {
    Ok(metadata_of(&path)?.into_others())
}

/// Reads the values of the fields with `#[r#static(saved)]` by their key paths, as JSON, for instance to build the template of a load from
/// its configuration. Like [`metadata`], reads only the header.
///
/// # Errors
/// Returns the errors of [`metadata`].
pub fn statics(path: impl Location) -> Result<BTreeMap<String, String>, CheckpointError> {
    let metadata = metadata_of(&path)?;
    let statics = metadata.statics().into_iter();
    Ok(statics
        .map(|(name, json)| (name.to_owned(), json.to_owned()))
        .collect())
}
