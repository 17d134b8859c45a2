//! Checkpoints: the leaves of any pytree in a safetensors file.
//!
//! A leaf is stored under its key path, a shared one once. A file is written beside the old one and takes
//! its place when it is complete, so that there is a complete one at any time. Loading compares the whole
//! file with a template first and makes a new value: nothing is ever half loaded.

mod bytes;
mod error;
mod file;
mod guess;
mod load;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use pytree_core::{PytreeOf, TreeDef, graph};
use pytree_transform::Tensor;
use safetensors::tensor::SafeTensors;

use crate::checkpoint::bytes::{Stored, dtype_name};
use crate::checkpoint::file::{parse, read, write_atomically};

pub use error::{CheckpointError, Mismatch};
pub use guess::OtherPrefix;
pub use load::{LoadOptions, LoadReport, load, load_with};

/// The key of the file's metadata under which the kinds of the leaves are: one line each, name and kind.
const KINDS: &str = "pytree.kinds";

/// The name of a leaf that is itself the whole tree.
const ROOT: &str = "value";

/// One leaf of a checkpoint: see [`inspect`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its key path.
    pub name: String,
    /// Its element type, for instance `f32`.
    pub dtype: String,
    /// The length of each axis.
    pub shape: Vec<usize>,
    /// Its kind, for instance `Param`, if it was a leaf of a module.
    pub kind: Option<String>,
}

/// Writes all leaves of a pytree to a safetensors file.
///
/// The file appears complete or not at all: it is written beside the old one, flushed to the disk, and
/// renamed.
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
/// [`CheckpointError::Io`], [`CheckpointError::Value`] if a leaf is traced, [`CheckpointError::DType`] or
/// [`CheckpointError::SameName`].
pub fn save<T: PytreeOf<Tensor>>(path: impl AsRef<Path>, state: &T) -> Result<(), CheckpointError> {
    let path = path.as_ref();
    let (leaves, treedef) = graph::flatten::<Tensor, T>(state);
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
    let metadata = std::iter::once((KINDS.to_owned(), kinds)).collect();
    let bytes = safetensors::serialize(stored, Some(metadata)).map_err(|error| {
        CheckpointError::Format {
            path: path.to_owned(),
            problem: error.to_string(),
        }
    })?;
    write_atomically(path, &bytes).map_err(|source| CheckpointError::Io {
        operation: "write",
        path: path.to_owned(),
        source,
    })
}

/// The leaves that a checkpoint holds, without a template, in the order of their names.
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
/// [`CheckpointError::Io`], [`CheckpointError::Format`] or [`CheckpointError::Length`].
pub fn inspect(path: impl AsRef<Path>) -> Result<Vec<Entry>, CheckpointError> {
    let path = path.as_ref();
    let bytes = read(path)?;
    let file = parse(path, &bytes)?;
    let metadata = SafeTensors::read_metadata(&bytes).map(|(_, metadata)| metadata);
    let kinds = metadata
        .ok()
        .and_then(|metadata| {
            metadata
                .metadata()
                .as_ref()
                .and_then(|metadata| metadata.get(KINDS).cloned())
        })
        .unwrap_or_default();
    let kinds: BTreeMap<&str, &str> = kinds
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .collect();
    let mut entries: Vec<Entry> = file
        .tensors()
        .into_iter()
        .map(|(name, view)| Entry {
            kind: kinds.get(name.as_str()).map(|&kind| kind.to_owned()),
            dtype: dtype_name(view.dtype()),
            shape: view.shape().to_vec(),
            name,
        })
        .collect();
    entries.sort_unstable_by(|left, right| left.name.cmp(&right.name));
    Ok(entries)
}

/// The names under which the leaves of a tree are stored, in order.
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
