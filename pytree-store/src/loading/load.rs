//! Loads checkpoints: matches every leaf of the file with a leaf of the template, or reports the mismatch.
//!
//! The leaves are compared before a number is read. Then the tensors are read one by one.
//!
//! By default file and template must have the same leaves. [`LoadOptions`] can rename the leaves of the file, and can
//! allow missing or unused leaves. [`LoadReport`] lists what was loaded.

use pytree_core::{AnyLeaf, ArrayInfo, ArrayLeaf, KeyPath, Leaf, Pytree, TreeDef, graph};

use crate::format::metadata::Metadata;
use crate::loading::layout::{ambiguous, pytorch_sign};
use crate::loading::location::Location;
use crate::loading::matching::Template;
use crate::loading::options::LoadOptions;
use crate::loading::reading::Targets;
use crate::loading::source::OpenCheckpoint;
use crate::names::leaves::{arrays_of, layer_name, names, places};
use crate::report::error::CheckpointError;
use crate::report::load_report::{LoadReport, OtherEpsilon};
use crate::report::mismatch::{Mismatch, StaticMismatch};

/// Loads a pytree from a safetensors file, or from a folder of several files that [`save_parts`] or Hugging Face wrote, or, with the
/// feature `npz`, from an archive of NumPy. `template` defines the names, the structure, the static values but for fields with `#[r#static(saved)]`, and which nodes are shared.
/// Its leaves may be of any types that implement [`ArrayLeaf`], also of others than those that were saved. They also define where the
/// loaded arrays are: a tensor of `pytree-transform` is on the device of the template's tensor, and on a mesh it has the same sharding.
///
/// From a folder, only the parts that devices of this process hold are read, and one part at a time is in the memory of
/// the host. A file is read tensor by tensor.
///
/// [`save_parts`]: crate::parts::save_parts
///
/// # Examples
/// ```
/// use ndarray::{Array1, Array2, array};
/// use pytree_core::Module;
/// use pytree_store::checkpoint;
///
/// #[derive(Module, Clone, Debug, PartialEq)]
/// struct Linear {
///     #[param]
///     weight: Array2<f32>,
///     #[param]
///     bias: Array1<f32>,
///     #[state]
///     steps: i64,
/// }
///
/// let model = Linear { weight: array![[1.0, 2.0]], bias: array![3.0, 4.0], steps: 100 };
/// let path = std::env::temp_dir().join("pytree-load-example.safetensors");
/// checkpoint::save(&path, &model)?;
/// let new = Linear { weight: Array2::zeros((1, 2)), bias: Array1::zeros(2), steps: 0 };
/// assert_eq!(checkpoint::load(&path, &new)?, model);
/// # std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns [`CheckpointError::Io`], [`CheckpointError::Format`], [`CheckpointError::Length`],
/// [`CheckpointError::Version`] or [`CheckpointError::Checksum`] if the file cannot be read or is damaged. Returns
/// [`CheckpointError::Mismatch`] with every leaf that is only in the template or only in the file, or whose shape or
/// dtype differs. Returns [`CheckpointError::UnknownLayout`] if a square matrix of a layer may be transposed, because the file is
/// not one of this library and has no other matrix. Returns [`CheckpointError::Index`] or [`CheckpointError::Part`] if a folder is damaged or incomplete, and
/// [`CheckpointError::Place`] if a device of the template reports an error. Returns [`CheckpointError::NotAnArray`] if a leaf of the
/// template is neither an array nor a number.
#[doc(alias("torch.load", "orbax.checkpoint.restore"))]
pub fn load<T: Pytree>(path: impl Location, template: &T) -> Result<T, CheckpointError> {
    load_with(path, template, &LoadOptions::new()).map(|(loaded, _)| loaded)
}

/// Loads a pytree like [`load`], with renamed, missing or unused leaves as `options` allow, and
/// returns a report.
///
/// # Examples
/// ```
/// use std::collections::BTreeMap;
/// use ndarray::{Array2, array};
/// use pytree_store::checkpoint::{self, LoadOptions};
///
/// let file = BTreeMap::from([
///     ("encoder/kernel", array![[1.0_f32, 2.0, 3.0]]),
///     ("decoder/kernel", array![[1.0_f32], [2.0], [3.0]]),
/// ]);
/// let path = std::env::temp_dir().join("pytree-load-with-example.safetensors");
/// checkpoint::save(&path, &file)?;
///
/// let template = BTreeMap::from([("weight", Array2::zeros((1, 3))), ("scale", array![[7.0_f32]])]);
/// let options = LoadOptions::new()
///     .rename_with(|name| name.replace("encoder/kernel", "weight"))
///     .allow_missing()
///     .allow_unused();
/// let (loaded, report) = checkpoint::load_with(&path, &template, &options)?;
/// assert_eq!(loaded["weight"], array![[1.0, 2.0, 3.0]]);
/// assert_eq!(loaded["scale"], template["scale"]);
/// assert_eq!(
///     report.to_string(),
///     "1 applied, 1 missing, 1 unused:
///   ['scale']: expected f32[1,1], but the file has no leaf with this name
///   ['decoder/kernel']: found f32[3,1], but the template has no leaf with this name"
/// );
/// # std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns the errors of [`load`]. A leaf that `options` allow to be missing or unused is not a mismatch. A leaf of
/// another shape or dtype is always a mismatch, and so are two leaves of the file that are renamed to the same name.
pub fn load_with<T: Pytree>(
    path: impl Location,
    template: &T,
    options: &LoadOptions<'_>,
) -> Result<(T, LoadReport), CheckpointError> {
    let (treedef, leaves, report) = load_any(template, path, options)?;
    Ok((graph::unflatten(&treedef, leaves)?, report))
}

/// Loads the leaves of a value like `template`. This function does not depend on the template's type, so it is compiled once.
fn load_any(
    template: &dyn Pytree,
    path: impl Location,
    options: &LoadOptions<'_>,
) -> Result<(TreeDef, Vec<AnyLeaf>, LoadReport), CheckpointError> {
    graph::try_with_any_leaves(template, |leaves, treedef| {
        let arrays = arrays_of(leaves, treedef)?;
        let (treedef, loaded, report) = load_leaves(path, treedef, &arrays, options)?;
        let leaves = loaded.into_iter().zip(leaves);
        let kept = |kept: &&dyn Leaf| AnyLeaf::from_boxed(kept.clone_boxed());
        let completed = leaves.map(|(loaded, leaf)| loaded.unwrap_or_else(|| kept(leaf)));
        let completed = completed.collect();
        Ok((treedef, completed, report))
    })?
}

/// Loads the leaves of a structure as [`load_with`] does: `arrays` are the leaves of a template, which may be of types that only describe
/// an array. A leaf that is missing in the file is `None`, which [`LoadOptions::allow_missing`] allows. The returned structure has the values
/// of the file in fields with `#[r#static(saved)]`.
///
/// # Errors
/// Returns the errors of [`load_with`].
pub fn load_leaves(
    path: impl Location,
    treedef: &TreeDef,
    arrays: &[&dyn ArrayLeaf],
    options: &LoadOptions<'_>,
) -> Result<(TreeDef, Vec<Option<AnyLeaf>>, LoadReport), CheckpointError> {
    load_from(OpenCheckpoint::open(&path)?, treedef, arrays, options)
}

fn load_from(
    mut file: OpenCheckpoint<'_>,
    treedef: &TreeDef,
    arrays: &[&dyn ArrayLeaf],
    options: &LoadOptions<'_>,
) -> Result<(TreeDef, Vec<Option<AnyLeaf>>, LoadReport), CheckpointError> {
    pytree_base::span!(INFO, "load", path = %file.path().display());
    let infos: Vec<ArrayInfo> = arrays.iter().map(|array| array.info().into()).collect();
    let metadata = file.metadata()?;
    let names = names(treedef);
    let template = Template {
        names: &names,
        places: places(
            treedef,
            infos.iter().map(|info| &info.shape[..]),
            options.names.as_ref(),
        ),
        leaves: &infos,
    };
    let axes = || treedef.leaf_axes();
    let matched = template.matched(axes, file.tensors(), options);
    let statics = with_statics(treedef, &metadata);
    let (treedef, (plan, mut report)) = match (statics, matched) {
        (Ok(treedef), Ok(matched)) => (treedef, matched),
        (statics, matched) => {
            let (leaves, prefix) = matched.err().unwrap_or_default();
            let mut mismatches = statics.err().unwrap_or_default();
            mismatches.extend(leaves);
            // If the file is damaged, the checksum explains the mismatches.
            file.check_all(&metadata)?;
            if let Some(sign) = options
                .names
                .is_none()
                .then(|| pytorch_sign(&file, &metadata))
                .flatten()
            {
                mismatches.insert(0, Mismatch::PyTorchNames { sign });
            }
            return Err(CheckpointError::Mismatch {
                path: file.path().to_owned(),
                mismatches,
                prefix: prefix.map(Box::new),
            });
        }
    };
    if options.names.is_none()
        && let Some(error) = ambiguous(&file, &metadata, &treedef, &infos, &plan)
    {
        return Err(error);
    }
    for stored in &report.tied {
        if file.hash(&stored[0])? != file.hash(&stored[1])? {
            let stored = stored.clone();
            return Err(CheckpointError::Mismatch {
                path: file.path().to_owned(),
                mismatches: vec![Mismatch::NotTied { stored }],
                prefix: None,
            });
        }
    }
    report.epsilons = other_epsilons(&treedef, options);
    let targets = Targets {
        names: &names,
        leaves: arrays,
    };
    let mut loaded: Vec<Option<AnyLeaf>> = arrays.iter().map(|_| None).collect();
    file.read(&metadata, plan, targets, &mut |leaf, new| {
        loaded[leaf] = Some(AnyLeaf::from_boxed(new));
    })?;
    Ok((treedef, loaded, report))
}

/// Returns the structure with the static fields that the file contains.
fn with_statics(treedef: &TreeDef, metadata: &Metadata) -> Result<TreeDef, Vec<Mismatch>> {
    let saved = metadata.statics();
    let loaded = treedef.with_saved_statics(|path| saved.get(&*path.to_string()).copied());
    loaded.map_err(|problems| {
        let mismatch = |(path, expected, problem): (KeyPath, _, _)| {
            let name = path.to_string();
            let found = saved.get(&*name).copied().unwrap_or_default().to_owned();
            Mismatch::Static(StaticMismatch {
                name,
                expected,
                found,
                problem,
            })
        };
        problems.into_iter().map(mismatch).collect()
    })
}

/// Returns the normalisations whose epsilon is the default of this library, and not that of the library that wrote the file.
fn other_epsilons(treedef: &TreeDef, options: &LoadOptions<'_>) -> Vec<OtherEpsilon> {
    let Some(names) = &options.names else {
        return Vec::new();
    };
    let nodes = treedef.nodes().filter(pytree_core::NodeView::is_module);
    let others = nodes.filter_map(|node| {
        let [own, default] = names.default_epsilons(layer_name(&node))?;
        let (_, found) = node.statics().find(|(name, _)| *name == "epsilon")?;
        let found = *found.downcast_ref::<f64>()?;
        let path = node.path().to_string();
        let separator = if path.is_empty() { "" } else { "." };
        // Another epsilon was chosen for this model.
        let is_other = found.to_bits() == own.to_bits() && own.to_bits() != default.to_bits();
        is_other.then(|| OtherEpsilon {
            name: format!("{path}{separator}epsilon"),
            found,
            default,
        })
    });
    others.collect()
}
