//! Compares two leaves.

use std::fmt;

use pytree_base::dtype::ElementType;

use crate::base::path::KeyPath;
use crate::base::text::short_name;
use crate::node::leaf::{ArrayInfo, ArrayLeaf, Leaf};

/// The difference between the leaves at a path.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LeafDiff {
    /// The path of the leaves.
    pub path: KeyPath,
    /// The left leaf: dtype and shape of an array, or the displayed text or type of any other leaf.
    pub left: String,
    /// The right leaf, described like the left leaf.
    pub right: String,
    /// The kind of the difference.
    pub change: LeafChange,
    /// The difference of the elements, if the arrays have the same shape and can be read. `None` if all elements are
    /// equal.
    pub values: Option<ValueDiff>,
}

/// The kinds of differences between two leaves, in the order of comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LeafChange {
    /// The types of the leaves differ, and at least one leaf is neither an array nor a number.
    Type,
    /// The shapes differ.
    Shape,
    /// The dtypes differ.
    ElementType,
    /// The elements of two arrays, or the displayed forms of two other leaves, differ.
    Values,
    /// The elements cannot be read, for instance inside a compiled function, so it is unknown whether they differ.
    Unread,
}

/// The difference between the elements of two arrays.
///
/// NaN equals NaN. The difference between NaN and any number is infinite.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ValueDiff {
    /// The number of elements that differ.
    pub differing: usize,
    /// The number of elements of each array.
    pub elements: usize,
    /// The largest absolute difference of two elements.
    pub absolute: f64,
    /// The largest relative difference of two elements: their absolute difference divided by the larger of their
    /// magnitudes.
    pub relative: f64,
    /// The first position of the largest absolute difference, as an index along each axis.
    pub position: Vec<usize>,
    /// The left element at `position`.
    pub left: f64,
    /// The right element at `position`.
    pub right: f64,
    /// For arrays of 64-bit integers, the exact elements at `position`; `left` and `right` may be rounded.
    pub integers: Option<(i128, i128)>,
}

pub(crate) fn compare(path: KeyPath, left: &dyn Leaf, right: &dyn Leaf) -> Option<LeafDiff> {
    let arrays = left.array_info().zip(right.array_info());
    let (change, texts, values) = if let Some((a, b)) = arrays {
        let (change, values) = compare_arrays(a, b, left, right)?;
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
    a: ArrayInfo<&[usize]>,
    b: ArrayInfo<&[usize]>,
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
        compare_values(a.shape, &left_values, &right_values, exact)
    });
    if a.element != b.element {
        return Some((LeafChange::ElementType, values));
    }
    if unread {
        return Some((LeafChange::Unread, None));
    }
    values.map(|values| (LeafChange::Values, Some(values)))
}

/// Returns the exact elements of an array of 64-bit integers, because a conversion to `f64` may round them. Returns
/// `None` for other leaves.
pub(crate) fn integers(info: ArrayInfo<&[usize]>, leaf: &dyn Leaf) -> Option<Vec<i128>> {
    if let Some(inner) = leaf.inner() {
        return integers(info, inner);
    }
    let bytes = |array: &dyn ArrayLeaf| Some(array.bytes().ok()?.into_owned());
    match info.element {
        ElementType::I64 => {
            let bytes = leaf.as_array().and_then(bytes)?;
            let elements = bytes.as_chunks().0.iter();
            Some(elements.map(|&it| i64::from_ne_bytes(it).into()).collect())
        }
        ElementType::U64 => {
            let bytes = leaf.as_array().and_then(bytes)?;
            let elements = bytes.as_chunks().0.iter();
            Some(elements.map(|&it| u64::from_ne_bytes(it).into()).collect())
        }
        _ => None,
    }
}

/// Compares elements in row-major order. If `exact` is given, its integers determine whether two elements differ.
#[allow(clippy::float_cmp, reason = "every difference counts")]
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

/// Returns the index along each axis of the element at a position in row-major order.
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

/// Displays a leaf as it is displayed in a tree.
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

/// Returns whether two leaves are equal: arrays by shape, dtype and elements, other leaves by type and displayed text.
pub(crate) fn same(left: &dyn Leaf, right: &dyn Leaf) -> bool {
    compare(KeyPath::root(), left, right).is_none()
}

impl LeafDiff {
    /// Returns the last four columns of a row of the difference table. The columns of the two leaves come before these
    /// four columns.
    pub(crate) fn columns(&self) -> [String; 4] {
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

/// Formats an element with as many digits as its dtype needs. `array` is the displayed array, which begins with the
/// dtype.
#[allow(clippy::cast_possible_truncation, reason = "an f32 holds the element")]
fn shown_as(array: &str, element: f64) -> String {
    let is_single = |dtype: &ElementType| dtype.is_float() && dtype.bytes() <= 4;
    let mut single = ElementType::ALL.iter().filter(|dtype| is_single(dtype));
    if single.any(|dtype| array.starts_with(dtype.name())) {
        (element as f32).to_string()
    } else {
        element.to_string()
    }
}
