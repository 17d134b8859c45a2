//! Reads files without a template: their arrays by name.

use std::collections::BTreeMap;

use pytree_core::{AnyLeaf, ArrayLeaf, Tree, TreeBuilder};

use crate::format::bytes::dtype_of;
use crate::loading::blank::{Blank, blank_of};
use crate::loading::entries::{Entry, entries};
use crate::loading::location::Location;
use crate::loading::reading::{Plan, Reading, TargetLeaf, Targets};
use crate::loading::source::OpenCheckpoint;
use crate::names::arrangement::Arrangement;
use crate::report::error::CheckpointError;

/// Loads the arrays of a safetensors file, or of a folder with an index, by their names, without a template. They are arrays of ndarray
/// with dynamic dimensions, such as `ArrayD<f32>`.
///
/// # Examples
/// ```
/// use ndarray::{ArrayD, array};
/// use pytree_store::checkpoint;
/// let path = std::env::temp_dir().join("pytree-arrays-example.safetensors");
/// checkpoint::save(&path, &(array![1.0_f32, 2.0], 3_i64))?;
/// let arrays = checkpoint::arrays(&path)?;
/// assert_eq!(arrays["[0]"].downcast_ref::<ArrayD<f32>>(), Some(&array![1.0, 2.0].into_dyn()));
/// # std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns [`CheckpointError::Io`], [`CheckpointError::Format`], [`CheckpointError::Length`],
/// [`CheckpointError::Version`] or [`CheckpointError::Checksum`] if the file cannot be read or is damaged, and
/// [`CheckpointError::UnknownDTypes`] with all arrays whose dtypes this library has not. [`arrays_where`] reads the others.
#[doc(alias = "safetensors.numpy.load_file")]
#[cfg(feature = "ndarray")]
pub fn arrays(path: impl Location) -> Result<BTreeMap<String, AnyLeaf>, CheckpointError> {
    arrays_where(path, |_| true, &crate::loading::ndarrays::ndarrays)
}

/// Loads the arrays that a function chooses by their names, dtypes and shapes, as arrays of the library of `blank`;
/// [`ndarrays`](crate::checkpoint::ndarrays) is that of ndarray.
///
/// # Errors
/// Returns the errors of [`arrays`], [`CheckpointError::UnknownDTypes`] for chosen arrays only.
pub fn arrays_where(
    path: impl Location,
    mut choose: impl FnMut(&Entry) -> bool,
    blank: &Blank<'_>,
) -> Result<BTreeMap<String, AnyLeaf>, CheckpointError> {
    chosen(&mut OpenCheckpoint::open(&path)?, &mut choose, blank)
}

fn chosen(
    file: &mut OpenCheckpoint<'_>,
    choose: &mut dyn FnMut(&Entry) -> bool,
    blank: &Blank<'_>,
) -> Result<BTreeMap<String, AnyLeaf>, CheckpointError> {
    let metadata = file.metadata()?;
    let mut chosen = entries(file, &metadata, |info| blank_of(info, blank).is_some());
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
    let names: Vec<String> = chosen.into_iter().map(|entry| entry.name).collect();
    let (mut plan, mut blanks) = (Plan::new(), Vec::with_capacity(names.len()));
    let mut infos = file.tensors();
    for name in &names {
        let Some(info) = infos.remove(name) else {
            continue;
        };
        let Some((dtype, array)) = dtype_of(info.dtype).zip(blank_of(&info, blank)) else {
            continue;
        };
        let part = TargetLeaf {
            leaf: blanks.len(),
            arrangement: Arrangement::same(&info.shape),
            shape: info.shape,
        };
        let parts = vec![part];
        plan.insert(name.clone(), vec![Reading { dtype, parts }]);
        blanks.push(array);
    }
    let leaves: Vec<&dyn ArrayLeaf> = blanks.iter().map(|blank| &**blank).collect();
    let targets = Targets {
        names: &names,
        leaves: &leaves,
    };
    let mut arrays = BTreeMap::new();
    file.read(&metadata, plan, targets, &mut |leaf, array| {
        arrays.insert(names[leaf].clone(), AnyLeaf::from_boxed(array));
    })?;
    Ok(arrays)
}

/// Loads the arrays of a safetensors file as a tree of dictionaries. The keys are the steps of the names between the
/// separators. The arrays are those of the library of `blank`.
///
/// # Examples
/// ```
/// use ndarray::array;
/// use pytree_store::checkpoint::{self, SaveOptions, WeightNames};
/// let path = std::env::temp_dir().join("pytree-nested-example.safetensors");
/// let options = SaveOptions::new().names(WeightNames::dotted());
/// checkpoint::save_with(&path, &vec![(array![1.0_f32], 2_i64)], &options)?;
/// let tree = checkpoint::nested_arrays(&path, ".", &checkpoint::ndarrays)?;
/// assert_eq!(tree.to_string(), "{'0': {'0': [1.0], '1': 2}}");
/// # std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns the errors of [`arrays`], and [`CheckpointError::Nested`] if a name is an array and other names are below
/// it.
///
/// # Panics
/// If the separator is empty.
#[track_caller]
pub fn nested_arrays(
    path: impl Location,
    separator: &str,
    blank: &Blank<'_>,
) -> Result<Tree, CheckpointError> {
    assert!(
        !separator.is_empty(),
        "`nested_arrays` expects a separator between the steps of a name, found an empty text; write for instance `\".\"`"
    );
    let mut file = OpenCheckpoint::open(&path)?;
    let tensors = chosen(&mut file, &mut |_| true, blank)?;
    let steps =
        |name: &'_ str| -> Vec<String> { name.split(separator).map(str::to_owned).collect() };
    let mut sorted: Vec<(Vec<String>, &AnyLeaf)> = tensors
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
