//! How two models differ: in structure, and leaf by leaf.

use std::collections::{HashMap, VecDeque};
use std::fmt;

use crate::base::error::Difference;
use crate::base::path::KeyPath;
use crate::contract::kept::Kept;
use crate::contract::pytree::Pytree;
use crate::node::leaf::{ArrayInfo, ElementType, Leaf, short_name};
use crate::trees::functions::tree;

/// How two models differ: made by [`diff`].
///
/// It displays as a table of the leaves that differ, with what else does.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelDiff {
    structure: Vec<Difference>,
    leaves: Vec<LeafDiff>,
    only_left: Vec<KeyPath>,
    only_right: Vec<KeyPath>,
    compared: usize,
}

/// How the leaves at one path differ.
#[derive(Clone, Debug, PartialEq)]
pub struct LeafDiff {
    /// Where.
    pub path: KeyPath,
    /// What the left leaf is: element type and shape of an array, what any other leaf displays, or its type.
    pub left: String,
    /// What the right leaf is.
    pub right: String,
    /// What differs.
    pub change: LeafChange,
    /// How the elements differ, of arrays of one shape whose elements can be read; `None` if all are equal.
    pub values: Option<ValueDiff>,
}

/// What differs between two leaves; compared in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LeafChange {
    /// The types of leaves that are not both arrays or numbers.
    Type,
    /// The shapes.
    Shape,
    /// The element types.
    ElementType,
    /// The elements, or what leaves that are not arrays display.
    Values,
    /// Nothing that is known: the elements cannot be read, as inside of a compiled function.
    Unread,
}

/// How the elements of two arrays differ.
///
/// NaN equals NaN and differs from every number by infinity.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueDiff {
    /// How many elements differ.
    pub differing: usize,
    /// How many elements there are.
    pub elements: usize,
    /// The largest absolute difference of two elements.
    pub absolute: f64,
    /// The largest difference relative to the larger magnitude of the two.
    pub relative: f64,
    /// Where the largest absolute difference is, the first such place.
    pub position: Vec<usize>,
    /// The left element there.
    pub left: f64,
    /// The right element there.
    pub right: f64,
    /// The two elements exactly, of arrays of 64-bit integers, which an `f64` may round.
    pub integers: Option<(i128, i128)>,
}

/// How two models differ, in structure and leaf by leaf; the leaves are matched by path.
///
/// The two may be of different types, for instance a model and a dynamic [`Tree`](crate::Tree). Arrays are compared
/// by shape, element type and elements, whatever holds them; other leaves by type and by what they display.
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
pub fn diff<A: Pytree, B: Pytree>(left: &A, right: &B) -> ModelDiff {
    let (left_treedef, right_treedef) = (tree::structure(left), tree::structure(right));
    let kept = Kept::default();
    let left_leaves = tree::kept_leaves(left, &kept);
    let right_leaves = tree::kept_leaves(right, &kept);
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
        match partner.and_then(|position| right_leaves.get(position)) {
            Some(right) => {
                found.compared += 1;
                found.leaves.extend(compare(path, left, *right));
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
    /// The differences in structure, from the root down.
    pub fn structure(&self) -> &[Difference] {
        &self.structure
    }

    /// The leaves that both models have and that differ, in order.
    pub fn leaves(&self) -> &[LeafDiff] {
        &self.leaves
    }

    /// The leaves that only the left model has, in order.
    pub fn only_left(&self) -> &[KeyPath] {
        &self.only_left
    }

    /// The leaves that only the right model has, in order.
    pub fn only_right(&self) -> &[KeyPath] {
        &self.only_right
    }

    /// The number of leaves that both models have.
    pub fn compared(&self) -> usize {
        self.compared
    }

    /// Whether the models are the same.
    pub fn is_empty(&self) -> bool {
        self.is_same_tree() && self.leaves.is_empty()
    }

    /// Whether the models are the same but for elements that differ by at most `tolerance`.
    pub fn within(&self, tolerance: f64) -> bool {
        self.all_values(|values| values.absolute <= tolerance)
    }

    /// As [`within`](Self::within), relative to the larger magnitude of two elements.
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

fn compare(path: KeyPath, left: &dyn Leaf, right: &dyn Leaf) -> Option<LeafDiff> {
    let arrays = left.array_info().zip(right.array_info());
    let (change, texts, values) = if let Some((a, b)) = arrays {
        let (change, values) = compare_arrays(&a, &b, left, right)?;
        (change, (a.to_string(), b.to_string()), values)
    } else {
        let (change, texts) = compare_opaque(left, right)?;
        (change, texts, None)
    };
    Some(LeafDiff {
        path,
        left: texts.0,
        right: texts.1,
        change,
        values,
    })
}

fn compare_arrays(
    a: &ArrayInfo,
    b: &ArrayInfo,
    left: &dyn Leaf,
    right: &dyn Leaf,
) -> Option<(LeafChange, Option<ValueDiff>)> {
    if a.shape != b.shape {
        return Some((LeafChange::Shape, None));
    }
    let read = left.values().zip(right.values());
    let unread = read.is_none();
    let values = read.and_then(|(left_values, right_values)| {
        let exact = integers(a, left).zip(integers(b, right));
        compare_values(&a.shape, &left_values, &right_values, exact)
    });
    if a.element != b.element {
        return Some((LeafChange::ElementType, values));
    }
    if unread {
        return Some((LeafChange::Unread, None));
    }
    values.map(|values| (LeafChange::Values, Some(values)))
}

/// The elements of an array of integers that an `f64` may round.
pub(crate) fn integers(info: &ArrayInfo, leaf: &dyn Leaf) -> Option<Vec<i128>> {
    match info.element {
        ElementType::I64 => {
            let array = leaf.array_view::<i64>()?;
            Some(array.iter().map(|&element| element.into()).collect())
        }
        ElementType::U64 => {
            let array = leaf.array_view::<u64>()?;
            Some(array.iter().map(|&element| element.into()).collect())
        }
        _ => None,
    }
}

/// The differences of elements in row-major order; what is exact of them, too, decides whether they differ.
#[allow(clippy::float_cmp, reason = "a difference is any at all")]
fn compare_values(
    shape: &[usize],
    left: &[f64],
    right: &[f64],
    exact: Option<(Vec<i128>, Vec<i128>)>,
) -> Option<ValueDiff> {
    let mut found: Option<(ValueDiff, usize)> = None;
    for (position, (&a, &b)) in left.iter().zip(right).enumerate() {
        let integers = exact
            .as_ref()
            .and_then(|(left, right)| Some((*left.get(position)?, *right.get(position)?)));
        let absolute = match integers {
            Some((left, right)) if left == right => continue,
            Some((left, right)) => (left - right).unsigned_abs() as f64,
            None if a == b || (a.is_nan() && b.is_nan()) => continue,
            None if a.is_nan() || b.is_nan() => f64::INFINITY,
            None => (a - b).abs(),
        };
        let relative = if absolute.is_finite() {
            absolute / a.abs().max(b.abs())
        } else {
            f64::INFINITY
        };
        let (values, at) = found.get_or_insert_with(|| {
            let values = ValueDiff {
                differing: 0,
                elements: left.len(),
                absolute,
                relative,
                position: Vec::new(),
                left: a,
                right: b,
                integers,
            };
            (values, position)
        });
        values.differing += 1;
        values.relative = values.relative.max(relative);
        if absolute > values.absolute {
            (values.absolute, values.left, values.right) = (absolute, a, b);
            values.integers = integers;
            *at = position;
        }
    }
    found.map(|(values, at)| ValueDiff {
        position: index_of(at, shape),
        ..values
    })
}

/// The index along each axis of an element in row-major order.
fn index_of(element: usize, shape: &[usize]) -> Vec<usize> {
    let mut rest = element;
    let mut index: Vec<usize> = shape
        .iter()
        .rev()
        .map(|&length| {
            let along = rest % length;
            rest /= length;
            along
        })
        .collect();
    index.reverse();
    index
}

/// A leaf as displays of trees show it.
struct Shown<'l>(&'l dyn Leaf);
impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display(f)
    }
}

fn compare_opaque(left: &dyn Leaf, right: &dyn Leaf) -> Option<(LeafChange, (String, String))> {
    if left.as_any().type_id() != right.as_any().type_id() {
        let name = |leaf: &dyn Leaf| {
            let info = leaf.array_info();
            info.map_or_else(|| short_name(leaf.type_name()), |info| info.to_string())
        };
        return Some((LeafChange::Type, (name(left), name(right))));
    }
    let texts = (Shown(left).to_string(), Shown(right).to_string());
    (texts.0 != texts.1).then_some((LeafChange::Values, texts))
}

/// Whether two leaves are the same: arrays by shape, element type and elements, other leaves by type and by what they
/// display.
pub(crate) fn same(left: &dyn Leaf, right: &dyn Leaf) -> bool {
    compare(KeyPath::root(), left, right).is_none()
}

impl LeafDiff {
    /// What the columns of the table after the two leaves say.
    fn columns(&self) -> [String; 4] {
        let Some(values) = &self.values else {
            let what = match self.change {
                LeafChange::Type => "type",
                LeafChange::Shape => "shape",
                LeafChange::ElementType => "element type",
                LeafChange::Values => "value",
                LeafChange::Unread => "not known",
            };
            return [what.to_owned(), String::new(), String::new(), String::new()];
        };
        let (left, right) = values.integers.map_or_else(
            || {
                (
                    shown_as(&self.left, values.left),
                    shown_as(&self.right, values.right),
                )
            },
            |(left, right)| (left.to_string(), right.to_string()),
        );
        [
            format!("{} of {}", values.differing, values.elements),
            format!("{:.3e}", values.absolute),
            format!("{:.3e}", values.relative),
            format!("{:?}: {left} against {right}", values.position),
        ]
    }
}

/// An element of an array that displays as `array`, with the digits that its type has.
#[allow(clippy::cast_possible_truncation, reason = "it was an f32")]
fn shown_as(array: &str, element: f64) -> String {
    if array.starts_with("f32") {
        (element as f32).to_string()
    } else {
        element.to_string()
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
