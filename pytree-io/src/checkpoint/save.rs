//! Saves checkpoints, with own or with other libraries' names, and with metadata of the user.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use pytree_core::boundary::try_flatten_with_references;
use pytree_core::{PytreeOf, TreeDef};
use pytree_transform::Tensor;

use crate::checkpoint::bytes::Stored;
use crate::checkpoint::file::IN_MEMORY;
use crate::checkpoint::leaves::{names, places};
use crate::checkpoint::metadata::{LAYOUT_KEY, Metadata, OURS};
use crate::checkpoint::names::Place;
use crate::checkpoint::{CheckpointError, WeightNames};
use crate::files;

/// Writes all leaves of a pytree to a safetensors file.
///
/// The save is atomic: [`files::write`] writes a temporary file, flushes it to the disk, and
/// renames this file. If several programs save to the same path, the file of the last program remains. The same leaves
/// always give the same bytes.
///
/// # Examples
/// ```
/// use pytree_io::checkpoint;
/// use pytree_nn::{Linear, Rngs};
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
/// - [`CheckpointError::ReservedName`] if the key path of a leaf is `__metadata__`.
/// - [`CheckpointError::Value`] if a leaf is traced.
#[doc(alias("torch.save", "orbax.checkpoint.save"))]
pub fn save<T: PytreeOf<Tensor>>(path: impl AsRef<Path>, state: &T) -> Result<(), CheckpointError> {
    save_with(path, state, &SaveOptions::new())
}

/// Options of [`save_with`]. By default a leaf has its key path as its name, and the file has no metadata of the user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SaveOptions {
    pub(super) names: Option<WeightNames>,
    pub(super) metadata: BTreeMap<String, String>,
}

impl SaveOptions {
    /// Returns the options that [`save`] uses.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Saves the leaves with the names and layouts of another library, for instance of PyTorch: the inverse of
    /// [`LoadOptions::names`](crate::checkpoint::LoadOptions::names).
    #[must_use]
    pub fn names(mut self, names: WeightNames) -> Self {
        self.names = Some(names);
        self
    }

    /// Adds an entry to the metadata of the file, which [`metadata`](crate::checkpoint::metadata()) reads. The checksum
    /// does not cover these entries. Files for the library `transformers` need the entry `format` with the value `pt`.
    #[must_use]
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata.insert(key.into(), value.into());
        self
    }
}

/// Writes all leaves of a pytree to a safetensors file like [`save`], with the names and the metadata of `options`.
///
/// # Examples
/// ```
/// use pytree_io::checkpoint::{self, LoadOptions, SaveOptions, WeightNames};
/// use pytree_nn::{Linear, Rngs};
/// let model = Linear::new(2, 3, &mut Rngs::new(0));
/// let path = std::env::temp_dir().join("pytree-save-with-example.safetensors");
/// let names = WeightNames::pytorch();
/// let options = SaveOptions::new().names(names.clone()).metadata("steps", "100");
/// checkpoint::save_with(&path, &model, &options)?;
/// assert_eq!(checkpoint::inspect(&path)?[1].shape, [3, 2]); // `[out, in]`, as in PyTorch
/// assert_eq!(checkpoint::metadata(&path)?["steps"], "100");
///
/// let template = Linear::new(2, 3, &mut Rngs::new(1));
/// let (loaded, report) = checkpoint::load_with(&path, &template, &LoadOptions::new().names(names))?;
/// assert_eq!(loaded, model);
/// assert_eq!(report.transposed, ["weight"]);
/// # std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns the errors of [`save`], [`CheckpointError::MetadataKey`] if a key of the metadata begins with `pytree.`, and
/// [`CheckpointError::Parts`] if the parts of a tensor that the file has in one do not fit each other.
pub fn save_with<T: PytreeOf<Tensor>>(
    path: impl AsRef<Path>,
    state: &T,
    options: &SaveOptions,
) -> Result<(), CheckpointError> {
    save_to(path.as_ref(), state, options, None, None)
}

/// Returns the bytes of the file that [`save`] writes, for a program without files, or to send them elsewhere.
/// [`Bytes`](crate::checkpoint::Bytes) reads them.
///
/// # Examples
/// ```
/// use pytree_io::checkpoint::{self, Bytes};
/// use pytree_nn::{Linear, Rngs};
/// let model = Linear::new(2, 3, &mut Rngs::new(0));
/// let bytes = checkpoint::to_bytes(&model)?;
/// let template = Linear::new(2, 3, &mut Rngs::new(1));
/// assert_eq!(checkpoint::load(Bytes(&bytes), &template)?, model);
/// # Ok::<(), checkpoint::CheckpointError>(())
/// ```
///
/// # Errors
/// Returns the errors of [`save`], without [`CheckpointError::Io`].
pub fn to_bytes<T: PytreeOf<Tensor>>(state: &T) -> Result<Vec<u8>, CheckpointError> {
    to_bytes_with(state, &SaveOptions::new())
}

/// Returns the bytes of the file that [`save_with`] writes.
///
/// # Errors
/// Returns the errors of [`save_with`], without [`CheckpointError::Io`].
pub fn to_bytes_with<T: PytreeOf<Tensor>>(
    state: &T,
    options: &SaveOptions,
) -> Result<Vec<u8>, CheckpointError> {
    content(Path::new(IN_MEMORY), state, options, None)
}

/// Saves a checkpoint of a folder with its step and metric. `family` is the name under which the writer looks for
/// temporary files of killed processes.
pub(super) fn save_in_folder<T: PytreeOf<Tensor>>(
    path: &Path,
    state: &T,
    options: &SaveOptions,
    progress: (usize, Option<f64>),
    family: &str,
) -> Result<(), CheckpointError> {
    save_to(path, state, options, Some(progress), Some(family))
}

fn save_to<T: PytreeOf<Tensor>>(
    path: &Path,
    state: &T,
    options: &SaveOptions,
    progress: Option<(usize, Option<f64>)>,
    family: Option<&str>,
) -> Result<(), CheckpointError> {
    let bytes = content(path, state, options, progress)?;
    let written = match family {
        Some(family) => files::write_in_family(path, &bytes, family),
        None => files::write(path, &bytes),
    };
    written.map_err(|source| CheckpointError::Io {
        operation: "write",
        path: path.to_owned(),
        source,
    })
}

/// Returns the content of a file.
fn content<T: PytreeOf<Tensor>>(
    path: &Path,
    state: &T,
    options: &SaveOptions,
    progress: Option<(usize, Option<f64>)>,
) -> Result<Vec<u8>, CheckpointError> {
    checked_metadata(options)?;
    // This reads all references at one instant, even if other threads write them.
    let (leaves, treedef, _) = try_flatten_with_references::<Tensor, T>(state)?;
    let (tensors, mut metadata) = match &options.names {
        None => {
            let tensors: Vec<_> = names(&treedef).into_iter().zip(leaves).collect();
            (tensors, described(&treedef))
        }
        Some(names) => {
            let mut metadata = Metadata::new(String::new(), String::new());
            let shapes = leaves.iter().map(Tensor::shape);
            let places = places(&treedef, shapes, Some(names));
            if places.iter().any(|place| !place.arrangement.is_same()) {
                let library = names.library();
                metadata.set(LAYOUT_KEY, library.unwrap_or_else(|| "another".to_owned()));
            }
            (renamed(&treedef, &leaves, &places)?, metadata)
        }
    };
    metadata.extend(&options.metadata);
    if let Some((step, metric)) = progress {
        metadata.set_progress(step, metric);
    }
    serialized(path, &tensors, metadata)
}

/// Checks that no key of the user's metadata belongs to this library.
pub(super) fn checked_metadata(options: &SaveOptions) -> Result<(), CheckpointError> {
    match options.metadata.keys().find(|key| key.starts_with(OURS)) {
        Some(key) => Err(CheckpointError::MetadataKey { key: key.clone() }),
        None => Ok(()),
    }
}

/// Returns the metadata with the kinds and the named axes of the leaves.
pub(super) fn described(treedef: &TreeDef) -> Metadata {
    let names = names(treedef);
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
    Metadata::new(kinds, axes)
}

/// Returns the tensors with the names and the layouts of another library.
fn renamed(
    treedef: &TreeDef,
    leaves: &[Tensor],
    places: &[Place],
) -> Result<Vec<(String, Tensor)>, CheckpointError> {
    let own = names(treedef);
    let mut tensors = Vec::new();
    // The parts of tensors that the file has in one: position of the part, leaf, number of parts.
    let mut fused: BTreeMap<&str, Vec<(usize, usize, usize)>> = BTreeMap::new();
    for (leaf, place) in places.iter().enumerate() {
        let (position, parts) = place.part;
        if parts > 1 {
            let group = fused.entry(&place.file).or_default();
            group.push((position, leaf, parts));
            continue;
        }
        let tensor = place.arrangement.to_file(&leaves[leaf]);
        let tensor = tensor.map_err(|source| CheckpointError::Value {
            name: own[leaf].clone(),
            source: Box::new(source),
        })?;
        for added in &place.added {
            tensors.push((added.clone(), Tensor::zeros_like(&tensor)));
        }
        tensors.push((place.file.clone(), tensor));
    }
    for (file, mut group) in fused {
        group.sort_unstable();
        let refused = || CheckpointError::Parts {
            name: own[group[0].1].clone(),
            stored: file.to_owned(),
            parts: group
                .iter()
                .map(|&(_, leaf, _)| own[leaf].clone())
                .collect(),
        };
        let axis = places[group[0].1].arrangement.outputs();
        let mut parts = Vec::with_capacity(group.len());
        for (expected, &(position, leaf, count)) in group.iter().enumerate() {
            let arrangement = &places[leaf].arrangement;
            let tensor = arrangement.to_file(&leaves[leaf]);
            match tensor {
                Ok(tensor)
                    if position == expected
                        && count == group.len()
                        && arrangement.outputs() == axis =>
                {
                    parts.push(tensor);
                }
                _ => return Err(refused()),
            }
        }
        let joined = Tensor::try_concatenate(&parts, axis.cast_signed());
        tensors.push((file.to_owned(), joined.map_err(|_| refused())?));
    }
    Ok(tensors)
}

/// Returns the content of a file with tensors and metadata.
fn serialized(
    path: &Path,
    tensors: &[(String, Tensor)],
    metadata: Metadata,
) -> Result<Vec<u8>, CheckpointError> {
    let mut seen = BTreeSet::new();
    let mut stored = Vec::with_capacity(tensors.len());
    for (name, tensor) in tensors {
        if !seen.insert(name) {
            return Err(CheckpointError::SameName { name: name.clone() });
        }
        stored.push((name.as_str(), Stored::new(name, tensor)?));
    }
    let refused = |problem: String| CheckpointError::Format {
        path: path.to_owned(),
        problem,
    };
    let mut bytes =
        safetensors::serialize(stored, None).map_err(|error| refused(error.to_string()))?;
    metadata.put_into(&mut bytes).ok_or_else(|| {
        refused("its header, with the names of all leaves, is longer than 100 megabytes".to_owned())
    })?;
    Ok(bytes)
}
