//! Looks through a model for bugs, as a linter does through a program.
//!
//! It reports what is certain: a tied weight that will come apart, a parameter that nothing can train, a value
//! that is not a number. It reads the model and changes nothing.

use std::collections::HashMap;
use std::fmt;

use crate::base::kind::LeafKind;
use crate::base::path::KeyPath;
use crate::contract::arena::Arena;
use crate::contract::flatten::Sharing;
use crate::contract::pytree::Pytree;
use crate::module::dynamic_module::not_trainable;
use crate::node::leaf::{ArrayInfo, Leaf};
use crate::tools::nodes::duplicates_of;
use crate::trees::functions::flatten_borrowed;

/// One thing that a [`lint`] found; displays with its mend.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// A shared node at several places. This is no mistake.
    Shared {
        /// Its places.
        paths: Vec<KeyPath>,
    },
    /// Leaves that hold the same memory and are not shared, one of them a parameter: they come apart as soon as
    /// one is changed.
    SameStorage {
        /// Their places.
        paths: Vec<KeyPath>,
    },
    /// A parameter of which no gradient exists.
    NotTrainable {
        /// Where.
        path: KeyPath,
        /// Its element type and shape, or its type.
        found: String,
    },
    /// A leaf without kind in a model whose leaves have kinds.
    WithoutKind {
        /// Where.
        path: KeyPath,
    },
    /// A float leaf with values that are infinite or not a number.
    NotFinite {
        /// Where.
        path: KeyPath,
        /// How many are not a number.
        nan: usize,
        /// How many are infinite.
        infinite: usize,
        /// How many there are in all.
        elements: usize,
    },
    /// Arrays of floats whose elements cannot be read, as inside of a compiled function: whether they are finite is
    /// not known. This is no mistake.
    NotKnown {
        /// Their places.
        paths: Vec<KeyPath>,
    },
    /// A parameter without elements.
    EmptyParameter {
        /// Where.
        path: KeyPath,
        /// Its element type and shape.
        found: ArrayInfo,
    },
}

impl Finding {
    /// The places it is about.
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

    /// Whether something is wrong; a shared node, and what is not known, is only told.
    pub fn is_mistake(&self) -> bool {
        !matches!(self, Self::Shared { .. } | Self::NotKnown { .. })
    }
}

fn joined(paths: &[KeyPath]) -> String {
    let paths: Vec<String> = paths.iter().map(KeyPath::or_root).collect();
    paths.join(", ")
}

/// How many elements are what, without what there is none of: `1 NaN and 2 infinite elements`.
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
                "one shared node is at {}: it is trained, counted and saved once",
                joined(paths)
            ),
            Self::SameStorage { paths } => write!(
                f,
                "the leaves at {} are one array and not shared: an update makes them differ; put the array into a `Shared` and clone that, or give each its own values",
                joined(paths)
            ),
            Self::NotTrainable { path, found } => write!(
                f,
                "the parameter at {} is {found}: expected a float array or number, of which gradients exist; make it a state (`#[state]`)",
                path.or_root()
            ),
            Self::WithoutKind { path } => write!(
                f,
                "the leaf at {} has no kind: no filter by kind finds it; make it a parameter (`#[param]`) or a state (`#[state]`)",
                path.or_root()
            ),
            Self::NotFinite {
                path,
                nan,
                infinite,
                elements,
            } => write!(
                f,
                "the leaf at {} is not finite: {} of {elements} in all; initialise it anew, or look for the step that made it so",
                path.or_root(),
                not_finite_elements(*nan, *infinite)
            ),
            Self::NotKnown { paths } => write!(
                f,
                "the values at {} are not known here, so that no search for NaN was made: call `lint` outside of the transformation",
                joined(paths)
            ),
            Self::EmptyParameter { path, found } => write!(
                f,
                "the parameter at {} has no elements, its shape is {found}: nothing of it can be trained; check the sizes that it was made with",
                path.or_root()
            ),
        }
    }
}

/// Looks for bugs in a model: shared nodes first, then leaf by leaf, then leaves that hold the same memory.
///
/// A shared node is looked at once, at its first place.
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
pub fn lint<T: Pytree + ?Sized>(model: &T) -> Vec<Finding> {
    let arena = Arena::default();
    let (leaves, treedef) = flatten_borrowed(Sharing::Preserve, model, &arena);
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
        let is_param = kind == Some(LeafKind::Param);
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
    let found = leaf.array_info().filter(ArrayInfo::is_empty)?;
    let path = path.clone();
    Some(Finding::EmptyParameter { path, found })
}

/// What is not finite, or an error if the elements cannot be read.
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
