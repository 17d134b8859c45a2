//! Saves and loads the leaves of any pytree in a safetensors file.
//!
//! A leaf is stored under its key path; a shared leaf is stored once. Saving writes a temporary file and renames it, so
//! the path never has an incomplete file. The metadata of a file contain the version of the format and a checksum, so a
//! damaged file is rejected. Loading first compares the whole file with a template and then builds a new value. If a
//! leaf does not match, nothing is loaded.

mod bytes;
mod error;
mod file;
mod guess;
mod load;
mod metadata;

use std::collections::BTreeSet;
use std::path::Path;

use pytree_core::boundary::try_flatten_with_references;
use pytree_core::{PytreeOf, TreeDef};
use pytree_transform::Tensor;

use crate::checkpoint::bytes::{Stored, dtype_name};
use crate::checkpoint::file::{parse, read};
use crate::checkpoint::metadata::Metadata;
use crate::files;

pub use error::{AxisMismatch, CheckpointError, Mismatch};
pub use guess::OtherPrefix;
pub use load::{LoadOptions, LoadReport, load, load_with};

/// The name under which the leaf is stored if the whole tree is a single leaf, whose key path is empty.
const ROOT: &str = "value";

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

/// Writes all leaves of a pytree to a safetensors file.
///
/// The save is atomic: [`files::write`] writes a temporary file, flushes it to the disk, and
/// renames this file. If several programs save to the same path, the file of the last program remains. The same leaves
/// always give the same bytes.
///
/// # Examples
/// ```
/// use pytree_nn::{Linear, Rngs, checkpoint};
/// let model = Linear::new(2, 3, &mut Rngs::new(0));
/// let path = std::env::temp_dir().join("pytree-save-example.safetensors");
/// checkpoint::save(&path, &model)?;
/// let template = Linear::new(2, 3, &mut Rngs::new(1));
/// assert_eq!(checkpoint::load(&path, &template)?, model);
/// # std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// - [`CheckpointError::Io`] if the file cannot be written.
/// - [`CheckpointError::DType`] if the dtype of a leaf is not supported.
/// - [`CheckpointError::SameName`] if two leaves have the same key path.
/// - [`CheckpointError::Value`] if a leaf is traced.
pub fn save<T: PytreeOf<Tensor>>(path: impl AsRef<Path>, state: &T) -> Result<(), CheckpointError> {
    let path = path.as_ref();
    // This reads all references at one instant, even if other threads write them.
    let (leaves, treedef, _) = try_flatten_with_references::<Tensor, T>(state)?;
    let names = names(&treedef);
    let mut seen = BTreeSet::new();
    let mut stored = Vec::with_capacity(leaves.len());
    for (name, tensor) in names.iter().zip(&leaves) {
        if !seen.insert(name) {
            return Err(CheckpointError::SameName { name: name.clone() });
        }
        stored.push((name.as_str(), Stored::new(name, tensor)?));
    }
    let mut kinds = String::new();
    for (name, kind) in names.iter().zip(treedef.leaf_kinds()) {
        if let Some(kind) = kind {
            kinds.extend([name.as_str(), "\t", &kind.to_string(), "\n"]);
        }
    }
    let mut axes = String::new();
    for (name, found) in names.iter().zip(treedef.leaf_axes()) {
        if let Some(found) = found {
            axes.extend([name.as_str(), "\t", &found.join(" "), "\n"]);
        }
    }
    let refused = |problem: String| CheckpointError::Format {
        path: path.to_owned(),
        problem,
    };
    let mut bytes =
        safetensors::serialize(stored, None).map_err(|error| refused(error.to_string()))?;
    Metadata::new(kinds, axes)
        .put_into(&mut bytes)
        .ok_or_else(|| refused("its names are too long".to_owned()))?;
    files::write(path, &bytes).map_err(|source| CheckpointError::Io {
        operation: "write",
        path: path.to_owned(),
        source,
    })
}

/// Lists the leaves of a checkpoint in the order of their names, without a template.
///
/// # Examples
/// ```
/// use pytree_nn::{Linear, Rngs, checkpoint};
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
pub fn inspect(path: impl AsRef<Path>) -> Result<Vec<Entry>, CheckpointError> {
    let path = path.as_ref();
    let bytes = read(path)?;
    let file = parse(path, &bytes)?;
    let metadata = Metadata::read(path, &bytes, &file)?;
    let (kinds, axes) = (metadata.kinds(), metadata.axes());
    let mut entries: Vec<Entry> = file
        .tensors()
        .into_iter()
        .map(|(name, view)| Entry {
            kind: kinds.get(name.as_str()).map(|&kind| kind.to_owned()),
            axes: axes
                .get(name.as_str())
                .map(|axes| axes.split_whitespace().map(str::to_owned).collect()),
            dtype: dtype_name(view.dtype()),
            shape: view.shape().to_vec(),
            name,
        })
        .collect();
    entries.sort_unstable_by(|left, right| left.name.cmp(&right.name));
    Ok(entries)
}

/// Returns the names under which the leaves of a tree are stored, in order.
fn names(treedef: &TreeDef) -> Vec<String> {
    let named = |path: String| {
        if path.is_empty() {
            ROOT.to_owned()
        } else {
            path
        }
    };
    treedef
        .leaf_paths()
        .iter()
        .map(|path| named(path.to_string()))
        .collect()
}

#[cfg(test)]
mod tests;
