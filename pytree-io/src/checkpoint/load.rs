//! Loads checkpoints: matches every leaf of the file with a leaf of the template, or reports the mismatch.
//!
//! The leaves are compared before a number is read. Then the tensors are read one by one.
//!
//! By default file and template must have the same leaves. [`LoadOptions`] can rename the leaves of the file, and can
//! allow missing or unused leaves. [`LoadReport`] lists what was loaded.

use std::fmt;

use pytree_core::{PytreeOf, TreeDef, graph};
use pytree_nn::Rngs;
use pytree_transform::{AbstractArray, Tensor, eval_shape};

use crate::checkpoint::layout::{ambiguous, pytorch_sign};
use crate::checkpoint::leaves::{layer_name, names, places};
use crate::checkpoint::matching::Template;
use crate::checkpoint::source::{Location, Places, Source};
use crate::checkpoint::{CheckpointError, LoadReport, Mismatch, OtherEpsilon, WeightNames};

/// Loads a pytree from a safetensors file, or from a folder that [`save_sharded`](crate::checkpoint::save_sharded) or Hugging Face
/// wrote, or, with the feature `npz`, from an archive of NumPy. `template` defines the names, the structure, the static values, and which nodes are shared. It also defines where
/// the tensors are: a loaded tensor is on the device of the template's tensor, and on a mesh it has the same
/// [`Sharding`](pytree_transform::device::Sharding). [`load_as`] needs no template.
///
/// From a folder, only the parts that devices of this process hold are read, and one part at a time is in the memory of
/// the host. A file is read tensor by tensor.
///
/// # Errors
/// Returns [`CheckpointError::Io`], [`CheckpointError::Format`], [`CheckpointError::Length`],
/// [`CheckpointError::Version`] or [`CheckpointError::Checksum`] if the file cannot be read or is damaged. Returns
/// [`CheckpointError::Mismatch`] with every leaf that is only in the template or only in the file, or whose shape or
/// dtype differs. Returns [`CheckpointError::UnknownLayout`] if a square matrix of a layer may be transposed, because the file is
/// not one of this library and has no other matrix. Returns [`CheckpointError::Index`] or [`CheckpointError::Part`] if a folder is damaged or incomplete, and
/// [`CheckpointError::Place`] if a device of the template reports an error.
#[doc(alias("torch.load", "orbax.checkpoint.restore"))]
pub fn load<T: PytreeOf<Tensor>>(path: impl Location, template: &T) -> Result<T, CheckpointError> {
    load_with(path, template, &LoadOptions::new()).map(|(loaded, _)| loaded)
}

/// Loads a pytree like [`load`], with renamed, missing or unused leaves as `options` allow, and
/// returns a report.
///
/// # Examples
/// ```
/// use std::collections::BTreeMap;
/// use pytree_io::checkpoint::{self, LoadOptions};
/// use pytree_nn::{Linear, Rngs};
/// use pytree_transform::{AbstractArray, Tensor};
///
/// let file = BTreeMap::from([
///     ("encoder/kernel", Tensor::from([[1.0_f32, 2.0, 3.0]])),
///     ("decoder/kernel", Tensor::from([[1.0_f32], [2.0], [3.0]])),
/// ]);
/// let path = std::env::temp_dir().join("pytree-load-with-example.safetensors");
/// checkpoint::save(&path, &file)?;
///
/// let template = Linear::new(1, 3, &mut Rngs::new(0));
/// let options = LoadOptions::new()
///     .rename_with(|name| name.replace("['encoder/kernel']", "weight"))
///     .allow_missing()
///     .allow_unused();
/// let (loaded, report) = checkpoint::load_with(&path, &template, &options)?;
/// assert_eq!(loaded.weight.to_vec::<f32>(), [1.0, 2.0, 3.0]);
/// assert_eq!(loaded.bias, template.bias);
/// assert_eq!(
///     report.to_string(),
///     "1 applied, 1 missing, 1 unused:
///   bias: expected f32[3], but the file has no leaf with this name
///   ['decoder/kernel']: found f32[3,1], but the template has no leaf with this name"
/// );
/// # std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns the errors of [`load`]. A leaf that `options` allow to be missing or unused is not a mismatch. A leaf of
/// another shape or dtype is always a mismatch, and so are two leaves of the file that are renamed to the same name.
pub fn load_with<T: PytreeOf<Tensor>>(
    path: impl Location,
    template: &T,
    options: &LoadOptions<'_>,
) -> Result<(T, LoadReport), CheckpointError> {
    let (leaves, treedef) = graph::try_flatten::<Tensor, T>(template)?;
    let infos: Vec<AbstractArray> = leaves.iter().map(|leaf| leaf.info().clone()).collect();
    let (loaded, report) = load_leaves(
        Source::open(&path)?,
        &treedef,
        &infos,
        Some(&leaves),
        options,
    )?;
    Ok((
        graph::unflatten(&treedef, completed(loaded, leaves))?,
        report,
    ))
}

/// Puts the template's leaves where the file has none.
fn completed(loaded: Vec<Option<Tensor>>, template: Vec<Tensor>) -> Vec<Tensor> {
    let leaves = loaded.into_iter().zip(template);
    leaves
        .map(|(loaded, kept)| loaded.unwrap_or(kept))
        .collect()
}

/// Loads a file as the value that `build` would return, without a template: `build` is traced with the random streams as its argument
/// (see [`eval_shape`]), so no random number is computed, and no memory is allocated for it. The loaded tensors are on the host.
///
/// If [`allow_missing`](LoadOptions::allow_missing) is set and the file lacks leaves, `build` runs with `Rngs::new(0)`, and the result
/// has its values.
///
/// # Examples
/// ```
/// use pytree_io::checkpoint::{self, LoadOptions};
/// use pytree_nn::{Activation, Mlp, Rngs};
/// let build = |rngs: &mut Rngs| Mlp::new(&[8, 16, 2], Activation::Relu, rngs);
/// let path = std::env::temp_dir().join("pytree-load-as-example.safetensors");
/// let trained = build(&mut Rngs::new(7));
/// checkpoint::save(&path, &trained)?;
///
/// let (loaded, _) = checkpoint::load_as(&path, &LoadOptions::new(), build)?;
/// assert_eq!(loaded, trained);
/// # std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns the errors of [`load_with`].
///
/// # Panics
/// If `build` panics, for instance because it reads the elements of a tensor.
#[doc(alias("jax.eval_shape", "nnx.eval_shape", "orbax.checkpoint.restore"))]
#[track_caller]
pub fn load_as<T: PytreeOf<Tensor>>(
    path: impl Location,
    options: &LoadOptions<'_>,
    build: impl Fn(&mut Rngs) -> T,
) -> Result<(T, LoadReport), CheckpointError> {
    let rngs = Rngs::new(0);
    let shapes = eval_shape(|rngs: &Rngs| build(&mut rngs.clone()), &rngs);
    let treedef = shapes.treedef();
    let (loaded, report) = load_leaves(
        Source::open(&path)?,
        treedef,
        shapes.leaves(),
        None,
        options,
    )?;
    let loaded: Vec<Tensor> = if loaded.iter().all(Option::is_some) {
        loaded.into_iter().flatten().collect()
    } else {
        let built = build(&mut rngs.clone());
        completed(loaded, graph::try_flatten::<Tensor, T>(&built)?.0)
    };
    Ok((graph::unflatten(treedef, loaded)?, report))
}

/// Loads leaves with the given dtypes and shapes, to where the leaves of a template are. A leaf that is missing in the file is `None`.
/// This function does not depend on the template's type, so it is compiled once.
fn load_leaves(
    mut file: Source<'_>,
    treedef: &TreeDef,
    infos: &[AbstractArray],
    leaves: Option<&[Tensor]>,
    options: &LoadOptions<'_>,
) -> Result<(Vec<Option<Tensor>>, LoadReport), CheckpointError> {
    let metadata = file.metadata()?;
    let names = names(treedef);
    let template = Template {
        names: &names,
        places: places(
            treedef,
            infos.iter().map(|info| &info.shape[..]),
            options.names.as_ref(),
        ),
        leaves: infos,
    };
    let axes = || treedef.leaf_axes();
    let (plan, mut report) = match template.matched(axes, file.tensors(), options) {
        Ok(matched) => matched,
        Err((mut mismatches, prefix)) => {
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
        && let Some(error) = ambiguous(&file, &metadata, treedef, infos, &plan)
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
    report.epsilons = other_epsilons(treedef, options);
    let places = Places {
        names: &names,
        leaves,
    };
    let mut loaded = vec![None; infos.len()];
    file.read(&metadata, plan, places, &mut |leaf, tensor| {
        // A leaf that is read twice is a sum.
        loaded[leaf] = Some(match loaded[leaf].take() {
            Some(before) => before + tensor,
            None => tensor,
        });
    })?;
    Ok((loaded, report))
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

type Rename<'f> = Box<dyn Fn(&str) -> String + 'f>;

/// Options of [`load_with`]. By default the names must be equal, and no leaf may be missing or
/// unused.
#[derive(Default)]
pub struct LoadOptions<'f> {
    renames: Vec<Rename<'f>>,
    names: Option<WeightNames>,
    pub(super) converts: bool,
    pub(super) may_miss: bool,
    pub(super) may_not_use: bool,
}

impl<'f> LoadOptions<'f> {
    /// Returns the options that [`load`] uses.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Renames the leaves of the file: `rename` maps each name in the file to the name in the template. To rename by
    /// pattern, use [`WeightNames::rename`]. If this method is called several times, the functions are applied one after
    /// the other. With [`names`](Self::names), the
    /// functions are applied first. They then return names of the library that wrote the file, for instance without a
    /// prefix.
    #[must_use]
    pub fn rename_with(mut self, rename: impl Fn(&str) -> String + 'f) -> Self {
        self.renames.push(Box::new(rename));
        self
    }

    /// Loads a file with the names and layouts of another library, for instance of PyTorch. Tensors are transposed,
    /// divided and reshaped as the layers of the template need them.
    #[must_use]
    pub fn names(mut self, names: WeightNames) -> Self {
        self.names = Some(names);
        self
    }

    /// Converts floats of the file to the dtype of the template's leaf, for instance bf16 to f32. The default is an
    /// error if the dtypes differ. A conversion to a narrower float rounds to the nearest number.
    #[must_use]
    pub fn convert_floats(mut self) -> Self {
        self.converts = true;
        self
    }

    /// Allows leaves of the template that are not in the file. These leaves keep the values of the template.
    #[must_use]
    pub fn allow_missing(mut self) -> Self {
        self.may_miss = true;
        self
    }

    /// Allows leaves of the file that are not in the template. These leaves are ignored.
    #[must_use]
    pub fn allow_unused(mut self) -> Self {
        self.may_not_use = true;
        self
    }

    pub(super) fn renamed(&self, name: String) -> String {
        let renames = self.renames.iter();
        renames.fold(name, |name, rename| rename(&name))
    }

    /// Returns the rules that match none of the names in the template.
    pub(super) fn unused_rules(&self, names: &[String]) -> Vec<Mismatch> {
        let rules = self.names.as_ref().map(|rules| rules.unused(names));
        rules.unwrap_or_default()
    }

    /// Returns whose layouts the file has, for messages.
    pub(super) fn library(&self) -> Option<String> {
        self.names.as_ref()?.library()
    }

    /// Returns the first name of a tensor that has two in the file, if this is the second.
    pub(super) fn first_name(&self, name: &str) -> Option<String> {
        self.names.as_ref()?.first_name(name)
    }

    /// Returns whether a tensor of the file, which may be renamed, is ignored.
    pub(super) fn ignores(&self, name: &str) -> bool {
        self.names.as_ref().is_some_and(|names| names.ignores(name))
    }
}

impl fmt::Debug for LoadOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadOptions")
            .field("renames", &self.renames.len())
            .field("names", &self.names)
            .field("converts", &self.converts)
            .field("may_miss", &self.may_miss)
            .field("may_not_use", &self.may_not_use)
            .finish()
    }
}
