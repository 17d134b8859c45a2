//! Moves the elements of a model to one with other arrays.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use pytree_base::suggest::Effort;
use thiserror::Error;

use crate::base::error::{LeafMismatch, PlaceProblem, TreeError};
use crate::base::path::KeyPath;
use crate::base::text::short_name;
use crate::contract::pytree::Pytree;
use crate::node::leaf::{AnyLeaf, ArrayLeaf, Leaf, LeafError};
use crate::trees::graph;

const DOING: &str = "cannot convert a model";

/// Returns a model like `template`, with the elements that `from` has at the same paths. The two may have arrays of different libraries:
/// one generic struct with two types of arrays, or two structs with the same names. States that are not arrays stay those of `template`.
///
/// # Errors
/// [`TreeError::Places`] with all paths that only one of the two has, [`TreeError::LeafTypes`] with all arrays whose dtypes or shapes
/// differ and all parameters without readable elements, and the error of a library that cannot read or write elements.
///
/// # Examples
/// ```
/// use ndarray::{Array1, ArrayD, array};
/// use pytree_core::{Module, graph};
///
/// #[derive(Module, Clone, Debug, PartialEq)]
/// struct Scale<A> {
///     #[param]
///     factors: A,
/// }
///
/// let from = Scale { factors: array![1.0_f32, 2.0] };
/// let template = Scale { factors: ArrayD::<f32>::zeros(vec![2]) };
/// assert_eq!(graph::convert(&from, &template)?.factors, array![1.0, 2.0].into_dyn());
/// let wrong = Scale { factors: Array1::<f64>::zeros(3) };
/// assert!(graph::convert(&from, &wrong).unwrap_err().to_string().ends_with("at factors: expected a leaf of type f64[3], found f32[2]"));
/// # Ok::<(), pytree_core::graph::ConvertError>(())
/// ```
pub fn convert<M: Pytree, N: Pytree>(from: &M, template: &N) -> Result<N, ConvertError> {
    let (found, structure) = graph::try_flatten_any(from)?;
    let (mut leaves, treedef) = graph::try_flatten_any(template)?;
    let (found_paths, paths) = (structure.leaf_paths(), treedef.leaf_paths());
    let places = places(&paths, &found_paths)?;
    let pairs = || {
        places
            .iter()
            .zip(&leaves)
            .map(|(&at, leaf)| (&found[at], leaf))
    };
    let kinds = treedef.leaf_kinds();
    let differing = pairs()
        .zip(&paths)
        .zip(kinds)
        .filter_map(|((pair, path), kind)| {
            let has_elements = [pair.0, pair.1].map(|leaf| leaf.as_array().is_some());
            let (found, expected) = (shown(pair.0), shown(pair.1));
            let mismatch = match has_elements {
                [false, false] if kind.is_some_and(|kind| kind.is_param()) => (
                    format!("{expected} with readable elements"),
                    format!("{found} of an unknown dtype; convert it to a dtype such as f32 first"),
                ),
                [false, false] => return None,
                _ if found == expected => return None,
                _ => (expected, found),
            };
            Some(LeafMismatch::new(path.clone(), mismatch.0, mismatch.1))
        });
    let mismatches: Vec<LeafMismatch> = differing.collect();
    if !mismatches.is_empty() {
        let doing = DOING;
        return Err(TreeError::LeafTypes { doing, mismatches }.into());
    }
    for ((leaf, &at), path) in leaves.iter_mut().zip(&places).zip(&paths) {
        let (Some(from), Some(to)) = (found[at].as_array(), leaf.as_array()) else {
            continue;
        };
        let filled = copied(from, to).map_err(|source| ConvertError::Elements {
            path: path.clone(),
            source,
        })?;
        *leaf = AnyLeaf::from_boxed(filled);
    }
    Ok(graph::unflatten(&treedef, leaves)?)
}

/// The error of a model that cannot be converted.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// The two models do not match.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The library of an array cannot read or write its elements.
    #[error("cannot convert the array at {path}: {source}")]
    Elements {
        /// The path of the array.
        path: KeyPath,
        /// The error of the library.
        source: LeafError,
    },
}

/// Returns for each path of the template its position among the found paths.
fn places(expected: &[KeyPath], found: &[KeyPath]) -> Result<Vec<usize>, TreeError> {
    let positions: HashMap<&KeyPath, usize> = found.iter().zip(0..).collect();
    let missing = expected.iter().filter(|path| !positions.contains_key(path));
    let missing = missing.map(|path| PlaceProblem::Missing(path.clone()));
    let known: HashSet<&KeyPath> = expected.iter().collect();
    let others = found.iter().filter(|path| !known.contains(path));
    let mut effort = Effort::default();
    let unknown = others.map(|path| {
        let texts = expected.iter().map(|known| (known, known.to_string()));
        let nearest = effort.nearest(&path.to_string(), texts);
        PlaceProblem::Unknown {
            path: path.clone(),
            nearest: nearest.map(|(known, _)| known.clone()),
        }
    });
    let problems: Vec<PlaceProblem> = missing.chain(unknown).collect();
    if problems.is_empty() {
        return Ok(expected.iter().map(|path| positions[path]).collect());
    }
    let doing = DOING;
    Err(TreeError::Places { doing, problems })
}

/// Returns the dtype and the shape of an array as text, or the type of another leaf.
fn shown(leaf: &AnyLeaf) -> String {
    let array = leaf.as_array().map(|array| array.info().to_string());
    array.unwrap_or_else(|| short_name(leaf.type_name()))
}

/// Returns an array like `to` with the elements of `from`.
fn copied(from: &dyn ArrayLeaf, to: &dyn ArrayLeaf) -> Result<Box<dyn Leaf>, LeafError> {
    let (bytes, size) = (from.bytes()?, from.info().element.bytes());
    let shape = from.info().shape.to_vec();
    to.refilled(&mut |region, into| {
        copy_region(&bytes, size, &shape, region, into);
        Ok(())
    })
}

/// Copies the elements of a region of an array in row-major order.
fn copy_region(
    bytes: &[u8],
    size: usize,
    shape: &[usize],
    region: &[Range<usize>],
    into: &mut [u8],
) {
    let (Some((length, inner)), Some((range, rest))) = (shape.split_first(), region.split_first())
    else {
        return into.copy_from_slice(&bytes[..into.len()]);
    };
    if inner
        .iter()
        .zip(rest)
        .all(|(&length, range)| *range == (0..length))
    {
        let row = size * inner.iter().product::<usize>();
        return into.copy_from_slice(&bytes[range.start * row..range.end * row]);
    }
    let (row, part) = (bytes.len() / length, into.len() / range.len().max(1));
    for (at, into) in range.clone().zip(into.chunks_exact_mut(part.max(1))) {
        copy_region(&bytes[at * row..(at + 1) * row], size, inner, rest, into);
    }
}
