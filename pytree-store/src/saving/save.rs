//! Saves checkpoints, with own or with other libraries' names, and with metadata of the user.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use pytree_core::{ArrayLeaf, ElementType, Pytree, TreeDef, graph};

use crate::elements::scatter::{Scatter, Target};
use crate::files;
use crate::format::bytes::{Stored, elements_of, savable};
use crate::format::file::{IN_MEMORY, io_error};
use crate::format::metadata::{LAYOUT_KEY, Metadata, OURS};
use crate::names::leaves::{arrays_of, names, places};
use crate::names::weight_names::{Place, WeightNames};
use crate::report::error::CheckpointError;

/// Writes all leaves of a pytree to a safetensors file.
///
/// The save is atomic: [`files::write`] writes a temporary file, flushes it to the disk, and
/// renames this file. If several programs save to the same path, the file of the last program remains. The same leaves
/// always give the same bytes.
///
/// # Examples
/// ```
/// use ndarray::{Array2, array};
/// use pytree_store::checkpoint;
/// let model = (array![[1.0_f32, 2.0]], 3_i64);
/// let path = std::env::temp_dir().join("pytree-save-example.safetensors");
/// checkpoint::save(&path, &model)?;
/// let template = (Array2::zeros((1, 2)), 0_i64);
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
/// - [`CheckpointError::NotAnArray`] if a leaf is neither an array nor a number.
/// - [`CheckpointError::Value`] if the elements of a leaf are not known, as those of a traced tensor.
#[doc(alias("torch.save", "orbax.checkpoint.save"))]
pub fn save<T: Pytree>(path: impl AsRef<Path>, state: &T) -> Result<(), CheckpointError> {
    save_with(path, state, &SaveOptions::new())
}

/// Options of [`save_with`]. By default a leaf has its key path as its name, and the file has no metadata of the user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SaveOptions {
    pub(crate) names: Option<WeightNames>,
    pub(crate) metadata: BTreeMap<String, String>,
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
/// use ndarray::{Array2, array};
/// use pytree_core::Module;
/// use pytree_store::checkpoint::{self, LoadOptions, SaveOptions, WeightLayout, WeightNames};
///
/// #[derive(Module, Clone, Debug, PartialEq)]
/// struct Linear {
///     #[param]
///     weight: Array2<f32>, // `[in, out]`
/// }
///
/// let model = Linear { weight: array![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]] };
/// let path = std::env::temp_dir().join("pytree-save-with-example.safetensors");
/// let names = WeightNames::dotted().layout("weight", WeightLayout::OutputsFirst);
/// let options = SaveOptions::new().names(names.clone()).metadata("steps", "100");
/// checkpoint::save_with(&path, &model, &options)?;
/// assert_eq!(checkpoint::inspect(&path)?[0].shape, [3, 2]); // `[out, in]`, as in PyTorch
/// assert_eq!(checkpoint::metadata(&path)?["steps"], "100");
///
/// let template = Linear { weight: Array2::zeros((2, 3)) };
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
pub fn save_with<T: Pytree>(
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
/// use ndarray::{Array2, array};
/// use pytree_store::checkpoint::{self, Bytes};
/// let model = (array![[1.0_f32, 2.0]], 3_i64);
/// let bytes = checkpoint::to_bytes(&model)?;
/// let template = (Array2::zeros((1, 2)), 0_i64);
/// assert_eq!(checkpoint::load(Bytes(&bytes), &template)?, model);
/// # Ok::<(), checkpoint::CheckpointError>(())
/// ```
///
/// # Errors
/// Returns the errors of [`save`], without [`CheckpointError::Io`].
pub fn to_bytes<T: Pytree>(state: &T) -> Result<Vec<u8>, CheckpointError> {
    to_bytes_with(state, &SaveOptions::new())
}

/// Returns the bytes of the file that [`save_with`] writes.
///
/// # Errors
/// Returns the errors of [`save_with`], without [`CheckpointError::Io`].
pub fn to_bytes_with<T: Pytree>(
    state: &T,
    options: &SaveOptions,
) -> Result<Vec<u8>, CheckpointError> {
    content(Path::new(IN_MEMORY), state, options, None)
}

/// Saves a checkpoint of a folder with its step and metric. `family` is the name under which the writer looks for
/// temporary files of killed processes.
pub(crate) fn save_in_folder(
    path: &Path,
    state: &dyn Pytree,
    options: &SaveOptions,
    progress: (usize, Option<f64>),
    family: &str,
) -> Result<(), CheckpointError> {
    save_to(path, state, options, Some(progress), Some(family))
}

fn save_to(
    path: &Path,
    state: &dyn Pytree,
    options: &SaveOptions,
    progress: Option<(usize, Option<f64>)>,
    family: Option<&str>,
) -> Result<(), CheckpointError> {
    pytree_base::span!(INFO, "save", path = %path.display());
    let bytes = content(path, state, options, progress)?;
    let written = match family {
        Some(family) => files::write_in_family(path, &bytes, family),
        None => files::write(path, &bytes),
    };
    written.map_err(io_error("write", path))
}

/// Returns the content of a file.
fn content(
    path: &Path,
    state: &dyn Pytree,
    options: &SaveOptions,
    progress: Option<(usize, Option<f64>)>,
) -> Result<Vec<u8>, CheckpointError> {
    checked_metadata(options)?;
    // This reads all references at one instant, even if other threads write them.
    graph::try_with_any_leaves(state, |leaves, treedef| {
        let arrays = arrays_of(leaves, treedef)?;
        let (tensors, mut metadata) = match &options.names {
            None => (own(treedef, &arrays)?, described(treedef)),
            Some(names) => {
                let mut metadata = Metadata::new(String::new(), String::new());
                let shapes = arrays.iter().map(|array| array.info().shape);
                let places = places(treedef, shapes, Some(names));
                if places.iter().any(|place| !place.arrangement.is_same()) {
                    let library = names.library();
                    metadata.set(LAYOUT_KEY, library.unwrap_or_else(|| "another".to_owned()));
                }
                (renamed(treedef, &arrays, &places)?, metadata)
            }
        };
        metadata.set_statics(treedef)?;
        metadata.extend(&options.metadata);
        if let Some((step, metric)) = progress {
            metadata.set_progress(step, metric);
        }
        serialized(path, tensors, metadata)
    })?
}

/// Checks that no key of the user's metadata belongs to this library.
pub(crate) fn checked_metadata(options: &SaveOptions) -> Result<(), CheckpointError> {
    match options.metadata.keys().find(|key| key.starts_with(OURS)) {
        Some(key) => Err(CheckpointError::MetadataKey { key: key.clone() }),
        None => Ok(()),
    }
}

/// Returns the metadata with the kinds and the named axes of the leaves.
pub(crate) fn described(treedef: &TreeDef) -> Metadata {
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

/// The tensors of a file, with their names.
type Tensors<'l> = Vec<(String, Stored<'l>)>;

/// Returns the leaves with their own names and layouts.
fn own<'l>(
    treedef: &TreeDef,
    leaves: &[&'l dyn ArrayLeaf],
) -> Result<Tensors<'l>, CheckpointError> {
    let named = names(treedef).into_iter().zip(leaves);
    let stored = named.map(|(name, leaf)| Ok((name.clone(), Stored::new(&name, *leaf)?)));
    stored.collect()
}

/// Returns the leaves with the names and the layouts of another library.
fn renamed<'l>(
    treedef: &TreeDef,
    leaves: &[&'l dyn ArrayLeaf],
    places: &[Place],
) -> Result<Tensors<'l>, CheckpointError> {
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
        let element = leaves[leaf].info().element;
        let shape = place.arrangement.file_shape();
        let mut bytes = elements_of(&own[leaf], leaves[leaf])?;
        if !place.arrangement.is_same() {
            bytes = Cow::Owned(joined(&shape, element, [(place, 0, &bytes[..])]));
        }
        for added in &place.added {
            let zeros = Cow::Owned(vec![0; bytes.len()]);
            tensors.push((added.clone(), (element, shape.clone(), zeros)));
        }
        tensors.push((place.file.clone(), (element, shape, bytes)));
    }
    for (file, mut group) in fused {
        group.sort_unstable();
        let group: Vec<(usize, usize)> = group
            .iter()
            .map(|&(_, leaf, parts)| (leaf, parts))
            .collect();
        let tensor = fused_tensor(&own, leaves, places, &group)?;
        let tensor = tensor.ok_or_else(|| CheckpointError::Parts {
            name: own[group[0].0].clone(),
            stored: file.to_owned(),
            parts: group.iter().map(|&(leaf, _)| own[leaf].clone()).collect(),
        });
        tensors.push((file.to_owned(), tensor?));
    }
    let stored = tensors.into_iter().map(|(name, (element, shape, bytes))| {
        let dtype = savable(&name, &name, element)?;
        Ok((name, Stored::of_bytes(element, dtype, shape, bytes)))
    });
    stored.collect()
}

/// A tensor of a file: its dtype, its shape, and its elements in the byte order of the host.
type Tensor<'l> = (ElementType, Vec<usize>, Cow<'l, [u8]>);

/// Returns the tensor of the file that consists of several leaves, or `None` if they do not fit each other. `group` has each leaf in the
/// order of the parts, and the number of parts that it expects.
fn fused_tensor<'l>(
    own: &[String],
    leaves: &[&'l dyn ArrayLeaf],
    places: &[Place],
    group: &[(usize, usize)],
) -> Result<Option<Tensor<'l>>, CheckpointError> {
    let (first, _) = group[0];
    let (element, axis) = (
        leaves[first].info().element,
        places[first].arrangement.outputs(),
    );
    let mut shape = places[first].arrangement.file_shape();
    if shape.is_empty() {
        return Ok(None);
    }
    shape[axis] = 0;
    let mut parts = Vec::with_capacity(group.len());
    for (expected, &(leaf, count)) in group.iter().enumerate() {
        let place = &places[leaf];
        let mut other = place.arrangement.file_shape();
        let begin = shape[axis];
        if let Some(length) = other.get_mut(axis) {
            shape[axis] += *length;
            *length = shape[axis];
        }
        let fits = place.part.0 == expected
            && count == group.len()
            && place.arrangement.outputs() == axis
            && leaves[leaf].info().element == element
            && other == shape;
        if !fits {
            return Ok(None);
        }
        parts.push((place, begin, elements_of(&own[leaf], leaves[leaf])?));
    }
    let parts = parts
        .iter()
        .map(|(place, begin, bytes)| (*place, *begin, &bytes[..]));
    let bytes = joined(&shape, element, parts);
    Ok(Some((element, shape, Cow::Owned(bytes))))
}

/// Returns the elements of a tensor of the file. Each part has its place, its first position along the axis of the outputs, and its
/// elements as in the model.
fn joined<'p>(
    shape: &[usize],
    element: ElementType,
    parts: impl IntoIterator<Item = (&'p Place, usize, &'p [u8])>,
) -> Vec<u8> {
    let unit = element.bytes();
    let mut bytes = vec![0; shape.iter().product::<usize>() * unit];
    for (place, begin, elements) in parts {
        let arrangement = &place.arrangement;
        let lengths = arrangement.joined();
        let (Some(&first), Some(&width)) = (lengths.first(), lengths.last()) else {
            bytes.copy_from_slice(elements);
            continue;
        };
        if elements.is_empty() {
            continue;
        }
        let target = Target {
            elements: &mut bytes,
            range: 0..first,
            places: arrangement.strides_in_file(shape, begin),
        };
        Scatter::new(lengths, unit, 0, vec![target]).add(elements, width);
    }
    bytes
}

/// Returns the content of a file with tensors and metadata.
fn serialized(
    path: &Path,
    tensors: Tensors<'_>,
    metadata: Metadata,
) -> Result<Vec<u8>, CheckpointError> {
    let mut seen = BTreeSet::new();
    if let Some((name, _)) = tensors.iter().find(|(name, _)| !seen.insert(name)) {
        return Err(CheckpointError::SameName { name: name.clone() });
    }
    let refused = |problem: String| CheckpointError::Format {
        path: path.to_owned(),
        problem,
    };
    let mut bytes =
        safetensors::serialize(tensors, None).map_err(|error| refused(error.to_string()))?;
    metadata.put_into(&mut bytes).ok_or_else(|| {
        refused("its header, with the names of all leaves, is longer than 100 megabytes".to_owned())
    })?;
    Ok(bytes)
}
