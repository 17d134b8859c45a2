//! Reads files without a template: their tensors by name, and their metadata.

use std::collections::{BTreeMap, BTreeSet};

use pytree_core::{Tree, TreeBuilder};
use pytree_transform::Tensor;

use crate::checkpoint::source::{Location, Source, metadata_of};
use crate::checkpoint::{CheckpointError, Entry, entries};

/// Loads the tensors of a safetensors file, or of a folder with an index, by their names, without a template.
///
/// # Examples
/// ```
/// use pytree_io::checkpoint;
/// use pytree_nn::{Linear, Rngs};
/// let path = std::env::temp_dir().join("pytree-tensors-example.safetensors");
/// checkpoint::save(&path, &Linear::new(2, 3, &mut Rngs::new(0)))?;
/// let tensors = checkpoint::tensors(&path)?;
/// assert_eq!(tensors["weight"].shape(), [2, 3]);
/// # std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns [`CheckpointError::Io`], [`CheckpointError::Format`], [`CheckpointError::Length`],
/// [`CheckpointError::Version`] or [`CheckpointError::Checksum`] if the file cannot be read or is damaged, and
/// [`CheckpointError::UnknownDTypes`] with all tensors whose dtypes this library has not. [`tensors_where`] reads the others.
#[doc(alias = "safetensors.torch.load_file")]
pub fn tensors(path: impl Location) -> Result<BTreeMap<String, Tensor>, CheckpointError> {
    tensors_where(path, |_| true)
}

/// Loads the tensors that a function chooses by their names, dtypes and shapes, like [`tensors`].
///
/// # Examples
/// ```
/// use pytree_io::checkpoint;
/// use pytree_nn::{Activation, Mlp, Rngs};
/// let path = std::env::temp_dir().join("pytree-tensors-where-example.safetensors");
/// checkpoint::save(&path, &Mlp::new(&[2, 3, 1], Activation::Relu, &mut Rngs::new(0)))?;
/// let biases = checkpoint::tensors_where(&path, |entry| entry.name.ends_with(".bias"))?;
/// assert_eq!(biases.len(), 2);
/// // A file may have dtypes that this library has not, such as `f8_e4m3` and `u64`.
/// let known = checkpoint::tensors_where(&path, |entry| entry.is_readable())?;
/// assert_eq!(known.len(), 4);
/// # std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns the errors of [`tensors`], [`CheckpointError::UnknownDTypes`] for chosen tensors only.
pub fn tensors_where(
    path: impl Location,
    mut choose: impl FnMut(&Entry) -> bool,
) -> Result<BTreeMap<String, Tensor>, CheckpointError> {
    chosen_tensors(&mut Source::open(&path)?, &mut choose)
}

fn chosen_tensors(
    file: &mut Source<'_>,
    choose: &mut dyn FnMut(&Entry) -> bool,
) -> Result<BTreeMap<String, Tensor>, CheckpointError> {
    let metadata = file.metadata()?;
    let mut chosen = entries(file, &metadata);
    chosen.retain(|entry| choose(entry));
    let unknown = chosen.iter().filter(|entry| !entry.is_readable());
    let unknown: Vec<String> = unknown
        .map(|entry| format!("{} of `{}`", entry.dtype, entry.name))
        .collect();
    if !unknown.is_empty() {
        return Err(CheckpointError::UnknownDTypes {
            path: file.path().to_owned(),
            tensors: unknown,
        });
    }
    let mut tensors = BTreeMap::new();
    let names: BTreeSet<String> = chosen.into_iter().map(|entry| entry.name).collect();
    file.read_wholes(
        &metadata,
        &|name: &str| names.contains(name),
        &mut |name, tensor| {
            tensors.insert(name.to_owned(), tensor);
        },
    )?;
    Ok(tensors)
}

/// Loads the tensors of a safetensors file as a tree of dictionaries. The keys are the steps of the names between the
/// separators.
///
/// # Examples
/// ```
/// use pytree_io::checkpoint::{self, SaveOptions, WeightNames};
/// use pytree_nn::{Activation, Mlp, Rngs};
/// let path = std::env::temp_dir().join("pytree-nested-example.safetensors");
/// let model = Mlp::new(&[2, 3, 1], Activation::Relu, &mut Rngs::new(0));
/// checkpoint::save_with(&path, &model, &SaveOptions::new().names(WeightNames::dotted()))?;
/// let tree = checkpoint::nested_tensors(&path, ".")?;
/// assert_eq!(tree["['layers']['1']['bias']"].shape(), [1]);
/// # std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns the errors of [`tensors`], and [`CheckpointError::Nested`] if a name is a tensor and other names are below
/// it.
///
/// # Panics
/// If the separator is empty.
#[track_caller]
pub fn nested_tensors(
    path: impl Location,
    separator: &str,
) -> Result<Tree<Tensor>, CheckpointError> {
    assert!(
        !separator.is_empty(),
        "`nested_tensors` expects a separator between the steps of a name, found an empty text; write for instance `\".\"`"
    );
    let mut file = Source::open(&path)?;
    let tensors = chosen_tensors(&mut file, &mut |_| true)?;
    let steps =
        |name: &'_ str| -> Vec<String> { name.split(separator).map(str::to_owned).collect() };
    let mut sorted: Vec<(Vec<String>, &Tensor)> = tensors
        .iter()
        .map(|(name, tensor)| (steps(name), tensor))
        .collect();
    sorted.sort_by(|(left, _), (right, _)| left.cmp(right));
    let mut builder = TreeBuilder::new();
    builder.begin_dict();
    let mut open: &[String] = &[];
    let mut before: Option<&Vec<String>> = None;
    for (steps, tensor) in &sorted {
        // A tensor comes directly before the names below it.
        if let Some(before) = before.filter(|before| steps.starts_with(before)) {
            return Err(CheckpointError::Nested {
                path: file.path().to_owned(),
                name: before.join(separator),
                below: steps.join(separator),
            });
        }
        before = Some(steps);
        let Some((last, dictionaries)) = steps.split_last() else {
            continue;
        };
        let common = open
            .iter()
            .zip(dictionaries)
            .take_while(|(left, right)| left == right)
            .count();
        for _ in common..open.len() {
            builder.end();
        }
        for step in &dictionaries[common..] {
            builder.key(step.clone()).begin_dict();
        }
        open = dictionaries;
        builder.key(last.clone()).leaf((*tensor).clone());
    }
    for _ in 0..=open.len() {
        builder.end();
    }
    Ok(builder.finish()?)
}

/// Reads the metadata that a user added to a file with [`SaveOptions::metadata`](crate::checkpoint::SaveOptions::metadata),
/// or that another program wrote. Reads only the header of the file, so the checksum is not compared.
///
/// # Examples
/// ```
/// use pytree_io::checkpoint::{self, SaveOptions};
/// use pytree_nn::{Linear, Rngs};
/// let path = std::env::temp_dir().join("pytree-metadata-example.safetensors");
/// let options = SaveOptions::new().metadata("vocabulary", "abc");
/// checkpoint::save_with(&path, &Linear::new(2, 3, &mut Rngs::new(0)), &options)?;
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
