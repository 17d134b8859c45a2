//! The differences of two models, in structure and leaf by leaf.

use std::collections::{HashMap, VecDeque};
use std::fmt;

use crate::base::error::Difference;
use crate::base::path::KeyPath;
use crate::contract::arena::Arena;
use crate::contract::flatten::Sharing;
use crate::contract::obstacle::passed;
use crate::contract::pytree::Pytree;
use crate::node::compare::{LeafChange, LeafDiff, ValueDiff, compare};
use crate::trees::functions::{flatten_as_tree, flatten_borrowed};

/// The differences between two models, as [`diff`] returns them.
///
/// The differences are displayed with the [largest](Self::largest) difference, as a table of the leaves that differ, and a
/// list of the other differences.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelDiff {
    structure: Vec<Difference>,
    leaves: Vec<LeafDiff>,
    only_left: Vec<KeyPath>,
    only_right: Vec<KeyPath>,
    compared: usize,
}

/// Compares two models in structure and leaf by leaf; leaves are matched by path.
///
/// The models may have different types, for instance a model and a dynamic [`Tree`](crate::Tree). Arrays are compared
/// by shape, dtype and elements; their Rust types do not matter. Other leaves are compared by type and by displayed
/// text.
///
/// A shared node is compared at each of its paths. A model that contains itself, or a weak edge with a target, cannot
/// be converted to a tree, and a part of a model with shared nodes, such as its gradient or the moments of its optimizer,
/// has only the first path of each. If one of the models contains such a value, both are compared as graphs, in which a
/// shared node is compared only at its first path.
///
/// # Examples
/// ```
/// use ndarray::array;
/// use pytree_core::diff;
/// let left = (array![1.0_f32, 2.0], 3.0_f32);
/// let right = (array![1.0_f32, 2.5], 3.0_f32);
/// let difference = diff(&left, &right);
/// assert_eq!(difference.leaves()[0].path.to_string(), "[0]");
/// assert!(difference.within(0.5) && !difference.within(0.4));
/// assert_eq!(
///     difference.to_string(),
///     "\
/// 1 of 2 leaves differs
///   path  left    right   differing  absolute  relative  at
///   [0]   f32[2]  f32[2]  1 of 2     5.000e-1  2.000e-1  [1]: 2 against 2.5",
/// );
/// ```
#[track_caller]
pub fn diff<A: Pytree, B: Pytree>(left: &A, right: &B) -> ModelDiff {
    let arena = Arena::default();
    let (mut left_leaves, mut left_treedef) = passed(flatten_as_tree(left, &arena));
    let (mut right_leaves, mut right_treedef) = passed(flatten_as_tree(right, &arena));
    if left_treedef.has_aliases() || right_treedef.has_aliases() {
        (left_leaves, left_treedef) = passed(flatten_borrowed(Sharing::Preserve, left, &arena));
        (right_leaves, right_treedef) = passed(flatten_borrowed(Sharing::Preserve, right, &arena));
    }
    let mut by_path: HashMap<KeyPath, VecDeque<usize>> = HashMap::new();
    let right_paths = right_treedef.leaf_paths();
    for (position, path) in right_paths.iter().enumerate() {
        by_path.entry(path.clone()).or_default().push_back(position);
    }
    let mut found = ModelDiff {
        structure: left_treedef.differences(&right_treedef),
        leaves: Vec::new(),
        only_left: Vec::new(),
        only_right: Vec::new(),
        compared: 0,
    };
    for (path, left) in left_treedef.leaf_paths().into_iter().zip(left_leaves) {
        let partner = by_path.get_mut(&path).and_then(VecDeque::pop_front);
        match partner {
            Some(position) => {
                found.compared += 1;
                let right = right_leaves[position];
                found.leaves.extend(compare(path, left, right));
            }
            None => found.only_left.push(path),
        }
    }
    let mut rest: Vec<usize> = by_path.into_values().flatten().collect();
    rest.sort_unstable();
    found.only_right = rest
        .into_iter()
        .map(|position| right_paths[position].clone())
        .collect();
    found
}

impl ModelDiff {
    /// Returns the differences between the structures of the models, from the root down.
    pub fn structural(&self) -> &[Difference] {
        &self.structure
    }

    /// Returns the leaves that are in both models and differ, in order.
    pub fn leaves(&self) -> &[LeafDiff] {
        &self.leaves
    }

    /// Returns the paths of the leaves that only the left model has, in order.
    pub fn only_left(&self) -> &[KeyPath] {
        &self.only_left
    }

    /// Returns the paths of the leaves that only the right model has, in order.
    pub fn only_right(&self) -> &[KeyPath] {
        &self.only_right
    }

    /// Returns the leaf with the largest absolute difference of an element, the first if several have it. `None` if no
    /// elements of arrays differ.
    ///
    /// # Examples
    /// ```
    /// use ndarray::array;
    /// use pytree_core::diff;
    /// let left = (array![1.0, 2.0], array![3.0]);
    /// let right = (array![1.0, 2.25], array![3.5]);
    /// let difference = diff(&left, &right);
    /// let (leaf, values) = difference.largest().unwrap();
    /// assert_eq!((leaf.path.to_string(), values.absolute), ("[1]".to_owned(), 0.5));
    /// ```
    pub fn largest(&self) -> Option<(&LeafDiff, &ValueDiff)> {
        let leaves = self.leaves.iter();
        let compared = leaves.filter_map(|leaf| Some((leaf, leaf.values.as_ref()?)));
        compared.reduce(|largest, other| {
            let is_larger = other.1.absolute > largest.1.absolute;
            if is_larger { other } else { largest }
        })
    }

    /// Returns the number of leaves that are in both models.
    pub fn compared(&self) -> usize {
        self.compared
    }

    /// Returns whether the models are equal.
    pub fn is_empty(&self) -> bool {
        self.is_same_tree() && self.leaves.is_empty()
    }

    /// Returns whether the models are equal, except for elements that differ by at most `tolerance`.
    pub fn within(&self, tolerance: f64) -> bool {
        self.all_values(|values| values.absolute <= tolerance)
    }

    /// Returns whether the models are equal, except for elements whose difference, divided by the larger magnitude of
    /// the two, is at most `tolerance`.
    pub fn within_relative(&self, tolerance: f64) -> bool {
        self.all_values(|values| values.relative <= tolerance)
    }

    fn all_values(&self, accept: impl Fn(&ValueDiff) -> bool) -> bool {
        self.is_same_tree()
            && self.leaves.iter().all(|leaf| {
                leaf.change == LeafChange::Values && leaf.values.as_ref().is_some_and(&accept)
            })
    }

    fn is_same_tree(&self) -> bool {
        self.structure.is_empty() && self.only_left.is_empty() && self.only_right.is_empty()
    }
}

impl fmt::Display for ModelDiff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.leaves.len();
        let verb = if count == 1 { "differs" } else { "differ" };
        write!(f, "{count} of {} leaves {verb}", self.compared)?;
        for (side, paths) in [("left", &self.only_left), ("right", &self.only_right)] {
            match paths.len() {
                0 => {}
                1 => write!(f, ", 1 is only in the {side}")?,
                more => write!(f, ", {more} are only in the {side}")?,
            }
        }
        // With one leaf, the table says it.
        if let Some((leaf, values)) = self.largest().filter(|_| count > 1) {
            let path = leaf.path.or_root();
            write!(
                f,
                "; the largest difference is {:.3e} at {path}",
                values.absolute
            )?;
        }
        let header = [
            "path",
            "left",
            "right",
            "differing",
            "absolute",
            "relative",
            "at",
        ];
        let mut rows = vec![header.map(str::to_owned)];
        rows.extend(self.leaves.iter().map(|leaf| {
            let [differing, absolute, relative, at] = leaf.columns();
            let (left, right) = (leaf.left.clone(), leaf.right.clone());
            [
                leaf.path.or_root(),
                left,
                right,
                differing,
                absolute,
                relative,
                at,
            ]
        }));
        let widths: [usize; 7] = std::array::from_fn(|column| {
            let cells = rows.iter().map(|row| row[column].chars().count());
            cells.max().unwrap_or(0)
        });
        for row in rows.iter().filter(|_| count > 0) {
            let cells = row.iter().zip(widths);
            let line = cells.fold(String::new(), |line, (cell, width)| {
                line + &format!("  {cell:<width$}")
            });
            write!(f, "\n{}", line.trim_end())?;
        }
        for (side, paths) in [("left", &self.only_left), ("right", &self.only_right)] {
            for path in paths {
                write!(f, "\nonly in the {side}: {}", path.or_root())?;
            }
        }
        for difference in &self.structure {
            write!(f, "\n{difference}")?;
        }
        Ok(())
    }
}
