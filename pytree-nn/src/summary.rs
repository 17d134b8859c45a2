//! Summaries: a table of the leaves of a pytree.

use std::fmt;

use pytree_base::bug::{LEAVES, pairs};
use pytree_core::{ArrayInfo, Leaf, LeafKind, Pytree, axes, graph};

/// A table of the leaves of a pytree, which [`summary`] returns. The display is a text table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// One row per leaf, in order.
    pub rows: Vec<SummaryRow>,
}

/// One leaf of a [`Summary`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SummaryRow {
    /// The key path of the leaf; for a shared leaf, its first key path.
    pub path: String,
    /// The kind of the leaf, if it is a leaf of a module.
    pub kind: Option<LeafKind>,
    /// The dtype and shape of the leaf, if it is an array or a number.
    pub array: Option<ArrayInfo>,
    /// The named axes of the leaf, if its module declares them.
    pub axes: Option<Vec<String>>,
}

impl SummaryRow {
    /// Returns the number of elements of the leaf, which is 0 if the leaf is neither an array nor a number.
    pub fn elements(&self) -> usize {
        self.array.as_ref().map_or(0, ArrayInfo::len)
    }

    /// Returns the size of all elements of the leaf, in bytes.
    pub fn bytes(&self) -> usize {
        self.array.as_ref().map_or(0, ArrayInfo::bytes)
    }

    /// Returns the dtype and shape with the names of the axes, for instance `f32[in=64,out=10]`.
    fn shape(&self) -> String {
        let Some(array) = &self.array else {
            return "-".to_owned();
        };
        let axes = self.axes.as_deref();
        let Some(names) = axes.and_then(|axes| axes::names(axes, array.shape.len())) else {
            return array.to_string();
        };
        let axes = names.iter().zip(&array.shape);
        let axes = axes.map(|(name, length)| match name {
            Some(name) => format!("{name}={length}"),
            None => length.to_string(),
        });
        let axes: Vec<String> = axes.collect();
        format!("{}[{}]", array.element, axes.join(","))
    }
}

/// Returns a table of the leaves of a pytree. Each row describes a leaf: its key path, kind, shape with the names of
/// the axes, number of elements, and size in bytes. There are totals for each kind and for all leaves. A shared leaf
/// counts once.
///
/// # Examples
/// ```
/// use pytree_nn::{Linear, Rngs, summary};
/// let table = summary(&Linear::new(64, 10, &mut Rngs::new(0)));
/// assert_eq!(table.elements(), 650);
/// println!("{table}");
/// // ┌────────┬───────┬───────────────────┬──────────┬───────┐
/// // │ path   │ kind  │ shape             │ elements │ bytes │
/// // ├────────┼───────┼───────────────────┼──────────┼───────┤
/// // │ weight │ Param │ f32[in=64,out=10] │      640 │ 2,560 │
/// // │ bias   │ Param │ f32[out=10]       │       10 │    40 │
/// // ├────────┼───────┼───────────────────┼──────────┼───────┤
/// // │ total  │ Param │                   │      650 │ 2,600 │
/// // └────────┴───────┴───────────────────┴──────────┴───────┘
/// ```
#[doc(alias("nnx.tabulate", "torchinfo.summary"))]
pub fn summary<T: Pytree + ?Sized>(tree: &T) -> Summary {
    let (leaves, treedef) = graph::flatten_any(tree);
    let places = pairs(treedef.leaf_paths(), treedef.leaf_kinds(), LEAVES);
    let places = pairs(places, treedef.leaf_axes(), LEAVES);
    let rows = pairs(places, leaves, LEAVES)
        .map(|(((path, kind), axes), leaf)| SummaryRow {
            path: path.or_root(),
            kind,
            array: leaf.array_info().map(ArrayInfo::from),
            axes,
        })
        .collect();
    Summary { rows }
}

impl Summary {
    /// Returns the number of elements of all leaves.
    pub fn elements(&self) -> usize {
        self.rows.iter().map(SummaryRow::elements).sum()
    }

    /// Returns the size of all leaves in bytes.
    pub fn bytes(&self) -> usize {
        self.rows.iter().map(SummaryRow::bytes).sum()
    }

    /// Returns the kinds in the order of their first leaf. For each kind, returns how many elements and how many bytes
    /// its leaves have together.
    pub fn by_kind(&self) -> Vec<(Option<LeafKind>, usize, usize)> {
        let mut totals: Vec<(Option<LeafKind>, usize, usize)> = Vec::new();
        for row in &self.rows {
            match totals.iter_mut().find(|(kind, ..)| *kind == row.kind) {
                Some((_, elements, bytes)) => {
                    *elements += row.elements();
                    *bytes += row.bytes();
                }
                None => totals.push((row.kind, row.elements(), row.bytes())),
            }
        }
        totals
    }
}

const COLUMNS: usize = 5;

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = ["path", "kind", "shape", "elements", "bytes"].map(str::to_owned);
        let leaves: Vec<[String; COLUMNS]> = self
            .rows
            .iter()
            .map(|row| {
                [
                    row.path.clone(),
                    kind_name(row.kind),
                    row.shape(),
                    grouped(row.elements()),
                    grouped(row.bytes()),
                ]
            })
            .collect();
        let by_kind = self.by_kind();
        let total = |kind: String, elements, bytes| {
            [
                "total".to_owned(),
                kind,
                String::new(),
                grouped(elements),
                grouped(bytes),
            ]
        };
        let mut totals: Vec<[String; COLUMNS]> = by_kind
            .iter()
            .map(|(kind, elements, bytes)| total(kind_name(*kind), *elements, *bytes))
            .collect();
        if by_kind.len() != 1 {
            totals.push(total(String::new(), self.elements(), self.bytes()));
        }
        let all = || std::iter::once(&header).chain(&leaves).chain(&totals);
        let widths: [usize; COLUMNS] = std::array::from_fn(|column| {
            all()
                .map(|row| row[column].chars().count())
                .max()
                .unwrap_or(0)
        });
        write_line(f, &widths, ['┌', '┬', '┐'])?;
        write_row(f, &widths, &header)?;
        for section in [&leaves, &totals] {
            if !section.is_empty() {
                write_line(f, &widths, ['├', '┼', '┤'])?;
            }
            section
                .iter()
                .try_for_each(|row| write_row(f, &widths, row))?;
        }
        write_line(f, &widths, ['└', '┴', '┘'])
    }
}

fn kind_name(kind: Option<LeafKind>) -> String {
    kind.map_or("-".to_owned(), |kind| kind.to_string())
}

/// Formats a number with a comma between groups of three digits.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn write_line(
    f: &mut fmt::Formatter<'_>,
    widths: &[usize; COLUMNS],
    corners: [char; 3],
) -> fmt::Result {
    let [left, middle, right] = corners;
    for (column, width) in widths.iter().enumerate() {
        let corner = if column == 0 { left } else { middle };
        write!(f, "{corner}{}", "─".repeat(width + 2))?;
    }
    write!(f, "{right}")?;
    if right == '┘' { Ok(()) } else { writeln!(f) }
}

fn write_row(
    f: &mut fmt::Formatter<'_>,
    widths: &[usize; COLUMNS],
    row: &[String; COLUMNS],
) -> fmt::Result {
    for (column, (text, &width)) in row.iter().zip(widths).enumerate() {
        // The first three columns contain text, which is aligned to the left. The other columns are numbers, which are
        // aligned to the right.
        if column < 3 {
            write!(f, "│ {text:<width$} ")?;
        } else {
            write!(f, "│ {text:>width$} ")?;
        }
    }
    writeln!(f, "│")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dropout, Linear, Rngs};
    use pytree_core::Shared;

    #[test]
    fn the_table_is_aligned_and_has_totals() {
        let mut rngs = Rngs::new(0);
        let model = (
            Linear::new(1000, 2, &mut rngs),
            Dropout::new(0.5, &mut rngs),
        );
        let expected = "\
┌──────────────────┬──────────┬────────────────────┬──────────┬───────┐
│ path             │ kind     │ shape              │ elements │ bytes │
├──────────────────┼──────────┼────────────────────┼──────────┼───────┤
│ [0].weight       │ Param    │ f32[in=1000,out=2] │    2,000 │ 8,000 │
│ [0].bias         │ Param    │ f32[out=2]         │        2 │     8 │
│ [1].stream.key   │ RngState │ u32[2]             │        2 │     8 │
│ [1].stream.count │ RngState │ u32[]              │        1 │     4 │
├──────────────────┼──────────┼────────────────────┼──────────┼───────┤
│ total            │ Param    │                    │    2,002 │ 8,008 │
│ total            │ RngState │                    │        3 │    12 │
│ total            │          │                    │    2,005 │ 8,020 │
└──────────────────┴──────────┴────────────────────┴──────────┴───────┘";
        assert_eq!(summary(&model).to_string(), expected);
    }

    #[test]
    fn a_shared_leaf_counts_once() {
        let shared = Shared::new(1.5_f32);
        assert_eq!(summary(&(shared.clone(), shared)).elements(), 1);
    }

    #[test]
    fn tree_without_leaves_has_table_too() {
        let text = summary(&()).to_string();
        assert_eq!(text.lines().count(), 5, "{text}");
    }

    #[test]
    fn digits_are_grouped() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_234_567), "1,234,567");
    }
}
