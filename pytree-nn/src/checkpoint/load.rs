//! Loads checkpoints: matches every leaf of the file with a leaf of the template, or reports the
//! mismatch.
//!
//! By default file and template must have the same leaves. [`LoadOptions`] can rename the leaves of the file, and can
//! allow missing or unused leaves. [`LoadReport`] lists what was loaded.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use pytree_core::suggest::Effort;
use pytree_core::{PytreeOf, graph};
use pytree_transform::{AbstractArray, Tensor};
use safetensors::tensor::TensorView;

use crate::axis_names::assigned;
use crate::checkpoint::bytes::{dtype_name, stored_dtype, tensor_of};
use crate::checkpoint::error::list;
use crate::checkpoint::file::{parse, read};
use crate::checkpoint::guess::{Names, OtherPrefix};
use crate::checkpoint::metadata::Metadata;
use crate::checkpoint::{AxisMismatch, CheckpointError, Mismatch, names};

/// Loads a pytree from a safetensors file. `template` defines the names, the structure, the static values, and which
/// nodes are shared.
///
/// # Errors
/// Returns [`CheckpointError::Io`], [`CheckpointError::Format`], [`CheckpointError::Length`],
/// [`CheckpointError::Version`] or [`CheckpointError::Checksum`] if the file cannot be read or is damaged. Returns
/// [`CheckpointError::Mismatch`] with every leaf that is only in the template or only in the file, or whose shape or
/// dtype differs.
pub fn load<T: PytreeOf<Tensor>>(
    path: impl AsRef<Path>,
    template: &T,
) -> Result<T, CheckpointError> {
    load_with(path, template, &LoadOptions::new()).map(|(loaded, _)| loaded)
}

/// Loads a pytree like [`load`], with renamed, missing or unused leaves as `options` allow, and
/// returns a report.
///
/// # Examples
/// ```
/// use std::collections::BTreeMap;
/// use pytree_nn::checkpoint::{self, LoadOptions};
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
///     .rename(|name| name.replace("['encoder/kernel']", "weight"))
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
    path: impl AsRef<Path>,
    template: &T,
    options: &LoadOptions<'_>,
) -> Result<(T, LoadReport), CheckpointError> {
    let path = path.as_ref();
    let bytes = read(path)?;
    let file = parse(path, &bytes)?;
    Metadata::read(path, &bytes, &file)?;
    let (expected, treedef) = graph::flatten::<Tensor, T>(template);
    let axes = || treedef.leaf_axes();
    let matched = matched(&names(&treedef), expected, axes, file.tensors(), options);
    let (leaves, report) = matched.map_err(|(mismatches, prefix)| CheckpointError::Mismatch {
        path: path.to_owned(),
        mismatches,
        prefix: prefix.map(Box::new),
    })?;
    Ok((graph::unflatten(&treedef, leaves)?, report))
}

type Rename<'f> = Box<dyn Fn(&str) -> String + 'f>;

/// Options of [`load_with`]. By default the names must be equal, and no leaf may be missing or
/// unused.
#[derive(Default)]
pub struct LoadOptions<'f> {
    renames: Vec<Rename<'f>>,
    may_miss: bool,
    may_not_use: bool,
}

impl<'f> LoadOptions<'f> {
    /// Returns the options that [`load`] uses.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Renames the leaves of the file: `rename` maps each name in the file to the name in the template. If this method
    /// is called several times, the functions are applied one after the other.
    #[must_use]
    pub fn rename(mut self, rename: impl Fn(&str) -> String + 'f) -> Self {
        self.renames.push(Box::new(rename));
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

    fn renamed(&self, name: String) -> String {
        let renames = self.renames.iter();
        renames.fold(name, |name, rename| rename(&name))
    }
}

impl fmt::Debug for LoadOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadOptions")
            .field("renames", &self.renames.len())
            .field("may_miss", &self.may_miss)
            .field("may_not_use", &self.may_not_use)
            .finish()
    }
}

/// A report of the leaves that were loaded, missing and unused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadReport {
    /// The names of the loaded leaves, as in the template.
    pub applied: Vec<String>,
    /// The leaves of the template that are not in the file, each a [`Mismatch::Missing`].
    pub missing: Vec<Mismatch>,
    /// The leaves of the file that are not in the template, each a [`Mismatch::Unexpected`].
    pub unused: Vec<Mismatch>,
}

impl fmt::Display for LoadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (applied, missing, unused) =
            (self.applied.len(), self.missing.len(), self.unused.len());
        write!(
            f,
            "{applied} applied, {missing} missing, {unused} unused{}{}",
            if missing + unused > 0 { ":" } else { "" },
            list(self.missing.iter().chain(&self.unused))
        )
    }
}

/// All leaves that differ between a file and its template, and the prefix whose replacement resolves most differences.
type Refused = (Vec<Mismatch>, Option<OtherPrefix>);

/// Returns the leaves of the file in the order of the template, or all mismatches as the error. `names` and `expected`
/// are the names and the leaves of the template, and `axes` returns the named axes of the leaves.
fn matched(
    names: &[String],
    expected: Vec<Tensor>,
    axes: impl Fn() -> Vec<Option<Vec<String>>>,
    mut file: Vec<(String, TensorView<'_>)>,
    options: &LoadOptions<'_>,
) -> Result<(Vec<Tensor>, LoadReport), Refused> {
    file.sort_unstable_by(|(left, _), (right, _)| left.cmp(right));
    let mut problems = Vec::new();
    let mut found: BTreeMap<String, (String, TensorView<'_>)> = BTreeMap::new();
    for (stored, view) in file {
        let name = options.renamed(stored.clone());
        if let Some((other, _)) = found.insert(name.clone(), (stored.clone(), view)) {
            problems.push(Mismatch::SameName {
                name,
                stored: [other, stored],
            });
        }
    }
    let mut leaves = Vec::with_capacity(expected.len());
    let (mut applied, mut missing) = (Vec::new(), Vec::new());
    let mut axes_of = None;
    for (position, (name, leaf)) in names.iter().zip(expected).enumerate() {
        let Some((_, view)) = found.remove(name) else {
            missing.push((name, leaf.info().clone()));
            leaves.push(leaf);
            continue;
        };
        if view.shape() == leaf.shape() && stored_dtype(leaf.dtype()) == Some(view.dtype()) {
            leaves.push(tensor_of(leaf.dtype(), view.shape(), view.data()));
            applied.push(name.clone());
        } else {
            let axes = axes_of.get_or_insert_with(&axes);
            let axes = axes.get_mut(position).and_then(Option::take);
            problems.push(Mismatch::Different {
                name: name.clone(),
                expected: leaf.info().clone(),
                found: described(&view),
                lengths: axes.as_deref().map_or_else(Vec::new, |axes| {
                    other_lengths(axes, leaf.shape(), view.shape())
                }),
                axes,
            });
        }
    }
    let (missing, unused, prefix) = left_over(&missing, &found);
    let is_error = |allowed: bool, mismatches: &[Mismatch]| !allowed && !mismatches.is_empty();
    if !problems.is_empty()
        || is_error(options.may_miss, &missing)
        || is_error(options.may_not_use, &unused)
    {
        // The error also lists missing and unused leaves that are allowed, because they may explain other mismatches.
        let mismatches = missing.into_iter().chain(unused).chain(problems);
        return Err((mismatches.collect(), prefix));
    }
    let report = LoadReport {
        applied,
        missing,
        unused,
    };
    Ok((leaves, report))
}

/// Returns the leaves that are only in the template, the leaves that are only in the file, and the prefix of names
/// whose replacement makes most of these leaves match.
fn left_over(
    missing: &[(&String, AbstractArray)],
    found: &BTreeMap<String, (String, TensorView<'_>)>,
) -> (Vec<Mismatch>, Vec<Mismatch>, Option<OtherPrefix>) {
    let left = Names::new(found.keys().map(String::as_str));
    let absent = Names::new(missing.iter().map(|(name, _)| name.as_str()));
    let prefix = OtherPrefix::find(&left, &absent);
    let mut effort = Effort::default();
    let missing = missing.iter().map(|(name, expected)| Mismatch::Missing {
        name: (*name).clone(),
        expected: expected.clone(),
        nearest: match prefix.as_ref().and_then(|prefix| prefix.stored(name)) {
            Some(stored) if left.contains(&stored) => Some(stored),
            _ => left.nearest(name, &mut effort),
        },
    });
    let missing: Vec<Mismatch> = missing.collect();
    let unused = found.iter().map(|(name, (_, view))| Mismatch::Unexpected {
        name: name.clone(),
        found: described(view),
        nearest: match prefix.as_ref().and_then(|prefix| prefix.expected(name)) {
            Some(expected) if absent.contains(&expected) => Some(expected),
            _ => absent.nearest(name, &mut effort),
        },
    });
    let unused: Vec<Mismatch> = unused.collect();
    (missing, unused, prefix)
}

/// Returns the named axes whose lengths differ. Returns an empty list if the two shapes have different ranks.
fn other_lengths(axes: &[String], expected: &[usize], found: &[usize]) -> Vec<AxisMismatch> {
    let names = assigned(axes, expected.len()).unwrap_or_default();
    if expected.len() != found.len() {
        return Vec::new();
    }
    let lengths = names.into_iter().zip(expected.iter().zip(found));
    let different = lengths.filter(|(_, (expected, found))| expected != found);
    let mismatches = different.filter_map(|(name, (&expected, &found))| {
        Some(AxisMismatch {
            axis: name?.to_owned(),
            expected,
            found,
        })
    });
    mismatches.collect()
}

/// Returns the dtype and the shape of a stored tensor as text, for example `f32[2,3]`.
fn described(view: &TensorView<'_>) -> String {
    format!("{}{:?}", dtype_name(view.dtype()), view.shape()).replace(' ', "")
}
