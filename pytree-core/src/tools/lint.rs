//! Finds bugs in a model, as a linter finds bugs in a program.
//!
//! [`lint`] reports a mistake only if the mistake is certain. Examples are a tied weight that will become two weights,
//! a parameter that cannot be trained, and a value that is NaN. [`lint`] does not change the model.

use std::collections::HashMap;
use std::fmt;

use crate::base::kind::LeafKind;
use crate::base::path::KeyPath;
use crate::contract::arena::Arena;
use crate::contract::flatten::Sharing;
use crate::contract::obstacle::passed;
use crate::contract::pytree::Pytree;
use crate::module::dynamic_module::not_trainable;
use crate::node::leaf::{ArrayInfo, Leaf};
use crate::tools::nodes::duplicates_of;
use crate::trees::functions::flatten_borrowed;

/// A fact about a model that [`lint`] reports. If the fact is a mistake, the displayed text says how to fix the model.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// A shared node at several paths. This is not a mistake.
    Shared {
        /// The paths of the node.
        paths: Vec<KeyPath>,
    },
    /// Leaves that use the same memory without being in a shared node. At least one of them is a parameter. An update
    /// of the model gives these leaves different values.
    SameStorage {
        /// The paths of the leaves.
        paths: Vec<KeyPath>,
    },
    /// A parameter without a gradient.
    NotTrainable {
        /// The path of the parameter.
        path: KeyPath,
        /// The dtype and shape of the leaf, or its type if it is not an array.
        found: String,
    },
    /// A leaf without a kind in a model whose leaves have kinds.
    WithoutKind {
        /// The path of the leaf.
        path: KeyPath,
    },
    /// A float leaf with values that are infinite or NaN.
    NotFinite {
        /// The path of the leaf.
        path: KeyPath,
        /// The number of NaNs.
        nan: usize,
        /// The number of infinite values.
        infinite: usize,
        /// The number of all elements.
        elements: usize,
    },
    /// Float arrays whose elements cannot be read, for instance inside a compiled function. NaNs in these arrays are
    /// not found. An array that cannot be read is not a mistake.
    NotKnown {
        /// The paths of the arrays.
        paths: Vec<KeyPath>,
    },
    /// A parameter without elements.
    EmptyParameter {
        /// The path of the parameter.
        path: KeyPath,
        /// The dtype and shape of the parameter.
        found: ArrayInfo,
    },
}

impl Finding {
    /// Returns the paths of the finding.
    pub fn paths(&self) -> &[KeyPath] {
        match self {
            Self::Shared { paths } | Self::SameStorage { paths } | Self::NotKnown { paths } => {
                paths
            }
            Self::NotTrainable { path, .. }
            | Self::WithoutKind { path }
            | Self::NotFinite { path, .. }
            | Self::EmptyParameter { path, .. } => std::slice::from_ref(path),
        }
    }

    /// Returns whether the finding is a mistake. Shared nodes and unreadable values are reported, but are not mistakes.
    pub fn is_mistake(&self) -> bool {
        !matches!(self, Self::Shared { .. } | Self::NotKnown { .. })
    }
}

fn joined(paths: &[KeyPath]) -> String {
    let paths: Vec<String> = paths.iter().map(KeyPath::or_root).collect();
    paths.join(", ")
}

/// Formats the counts that are not zero: `1 NaN and 2 infinite elements`.
fn not_finite_elements(nan: usize, infinite: usize) -> String {
    let counted = [(nan, "NaN"), (infinite, "infinite")].into_iter();
    let counted: Vec<String> = counted
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    let elements = if nan + infinite == 1 {
        "element"
    } else {
        "elements"
    };
    format!("{} {elements}", counted.join(" and "))
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shared { paths } => write!(
                f,
                "the paths {} lead to one shared node, which is trained, counted and saved once",
                joined(paths)
            ),
            Self::SameStorage { paths } => write!(
                f,
                "the leaves at {} use the same memory but are not a shared node: the first update makes them different; put the array into a `Shared` and clone the `Shared`, or give each leaf its own array",
                joined(paths)
            ),
            Self::NotTrainable { path, found } => write!(
                f,
                "the parameter at {} is {found}: expected a float array or number, because only floats have gradients; make it a state (`#[state]`)",
                path.or_root()
            ),
            Self::WithoutKind { path } => write!(
                f,
                "the leaf at {} has no kind, so no filter by kind selects it; make it a parameter (`#[param]`) or a state (`#[state]`)",
                path.or_root()
            ),
            Self::NotFinite {
                path,
                nan,
                infinite,
                elements,
            } => write!(
                f,
                "the leaf at {} is not finite: it has {} ({elements} elements in all); initialize it again, or find the training step that produced these values",
                path.or_root(),
                not_finite_elements(*nan, *infinite)
            ),
            Self::NotKnown { paths } => write!(
                f,
                "the values at {} cannot be read here, so NaNs cannot be found; call `lint` outside of the transformation",
                joined(paths)
            ),
            Self::EmptyParameter { path, found } => write!(
                f,
                "the parameter at {} is {found}: it has no elements, so it cannot be trained; check the sizes with which it was created",
                path.or_root()
            ),
        }
    }
}

/// Finds bugs in a model: reports shared nodes first, then each leaf, then leaves that use the same memory.
///
/// A shared node is checked once, at its first path.
///
/// # Examples
/// ```
/// use pytree_core::{Module, lint};
/// #[derive(Module)]
/// struct Line {
///     #[param]
///     slope: f32,
/// }
/// assert!(lint(&Line { slope: 2.0 }).is_empty());
/// let findings = lint(&Line { slope: f32::NAN });
/// assert!(findings[0].to_string().starts_with("the leaf at slope is not finite"));
/// ```
#[track_caller]
pub fn lint<T: Pytree + ?Sized>(model: &T) -> Vec<Finding> {
    let arena = Arena::default();
    let (leaves, treedef) = passed(flatten_borrowed(Sharing::Preserve, model, &arena));
    let kinds = treedef.leaf_kinds();
    let is_module = kinds.iter().any(Option::is_some);
    let duplicates = duplicates_of(&treedef);
    let shared = duplicates
        .iter()
        .cloned()
        .map(|paths| Finding::Shared { paths });
    let mut findings: Vec<Finding> = shared.collect();
    let mut not_known = Vec::new();
    let mut storages: Vec<(bool, Vec<KeyPath>)> = Vec::new();
    let mut numbers: HashMap<usize, usize> = HashMap::new();
    for ((path, kind), leaf) in treedef.leaf_paths().into_iter().zip(kinds).zip(leaves) {
        let is_param = kind.as_ref().is_some_and(LeafKind::is_param);
        if is_module && kind.is_none() {
            findings.push(Finding::WithoutKind { path: path.clone() });
        }
        if is_param {
            findings.extend(bad_parameter(&path, leaf));
        }
        match not_finite(&path, leaf) {
            Ok(finding) => findings.extend(finding),
            Err(()) => not_known.push(path.clone()),
        }
        if let Some(storage) = leaf.storage_identity() {
            let number = *numbers.entry(storage).or_insert_with(|| {
                storages.push((false, Vec::new()));
                storages.len() - 1
            });
            storages[number].0 |= is_param;
            storages[number].1.push(path);
        }
    }
    if !not_known.is_empty() {
        findings.push(Finding::NotKnown { paths: not_known });
    }
    let same = storages.into_iter();
    findings.extend(
        same.filter(|(trained, paths)| *trained && paths.len() > 1)
            .map(|(_, paths)| Finding::SameStorage { paths }),
    );
    findings
}

fn bad_parameter(path: &KeyPath, leaf: &dyn Leaf) -> Option<Finding> {
    if let Some(found) = not_trainable(leaf) {
        let path = path.clone();
        return Some(Finding::NotTrainable { path, found });
    }
    let found = leaf.array_info().filter(ArrayInfo::is_empty)?.into();
    let path = path.clone();
    Some(Finding::EmptyParameter { path, found })
}

/// Returns a finding if the leaf has values that are not finite. Fails if the elements cannot be read.
fn not_finite(path: &KeyPath, leaf: &dyn Leaf) -> Result<Option<Finding>, ()> {
    if !leaf
        .array_info()
        .is_some_and(|info| info.element.is_float())
    {
        return Ok(None);
    }
    let values = leaf.values().ok_or(())?;
    let nan = values.iter().filter(|value| value.is_nan()).count();
    let infinite = values.iter().filter(|value| value.is_infinite()).count();
    Ok((nan + infinite > 0).then(|| Finding::NotFinite {
        path: path.clone(),
        nan,
        infinite,
        elements: values.len(),
    }))
}
