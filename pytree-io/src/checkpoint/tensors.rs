//! Reads files without a template: their tensors by name.

use std::collections::BTreeMap;

use pytree_base::bug::expect_some;
use pytree_core::{AnyLeaf, Tree};
use pytree_store::checkpoint::{CheckpointError, Entry, Location, arrays_where, nested_arrays};
use pytree_transform::Tensor;

use crate::checkpoint::blank::blank;

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
    choose: impl FnMut(&Entry) -> bool,
) -> Result<BTreeMap<String, Tensor>, CheckpointError> {
    let arrays = arrays_where(path, choose, &blank)?.into_iter();
    Ok(arrays.map(|(name, array)| (name, tensor(&array))).collect())
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
    Ok(nested_arrays(path, separator, &blank)?.map(tensor))
}

/// Returns the tensor that a blank has become.
fn tensor(array: &AnyLeaf) -> Tensor {
    expect_some(
        array.downcast_ref::<Tensor>().cloned(),
        "a tensor in place of its description",
    )
}
