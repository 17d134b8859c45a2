//! Writes a state line by line, in the layout of Flax NNX.

use std::fmt::{self, Write as _};

use pytree_base::bug::{LEAVES, expect_at, expect_next};

use crate::base::kind::LeafKind;
use crate::base::text::write_quoted;
use crate::module::annotated::{Metadata, metadata_of};
use crate::node::leaf::Leaf;
use crate::node::shape::NodeKind;
use crate::treedef::{NodeView, Notation};
use crate::trees::dynamic::Tree;

/// The number of spaces that each level of nesting adds to the indentation.
const INDENT: usize = 2;

/// Writes a tree as a state.
pub(super) fn write_state<L: Leaf>(tree: &Tree<L>, f: &mut impl fmt::Write) -> fmt::Result {
    let writer = Writer {
        leaves: tree.leaves(),
        before: tree.treedef().leaves_before(),
    };
    f.write_str("State(")?;
    let root = tree.treedef().root();
    if let Some(kind) = kind_of_reference(root) {
        writer.variable(kind, root, 0, f)?;
    } else if root.inside().kind() == NodeKind::Leaf {
        writer.value(root, 0, f)?;
    } else {
        writer.entries(root.inside(), f)?;
    }
    f.write_char(')')
}

/// The children of a node that contain leaves, with their positions among all children.
type Children<'t> = std::vec::IntoIter<(usize, NodeView<'t>)>;

struct Writer<'t, L> {
    leaves: &'t [L],
    /// For each node, the number of leaves before it. The last element is the number of all leaves.
    before: Vec<usize>,
}

impl<L: Leaf> Writer<'_, L> {
    /// Returns the leaves at and below a node.
    fn leaves_of(&self, node: NodeView<'_>) -> &[L] {
        let range = self.before[node.position()]..self.before[node.end()];
        expect_at(self.leaves, range, LEAVES)
    }

    /// Writes the content of a node as a dictionary. The loop does not recurse, because a tree may have any depth.
    fn entries(&self, root: NodeView<'_>, f: &mut impl fmt::Write) -> fmt::Result {
        // For each dictionary that is not written completely, from the root down: its node, the remaining children, and
        // whether a child was written.
        let mut open = vec![(root, self.children(root), false)];
        f.write_char('{')?;
        while let Some((parent, children, written)) = open.last_mut() {
            let Some((position, child)) = children.next() else {
                let any = *written;
                open.pop();
                if any {
                    new_line(f, open.len())?;
                }
                f.write_char('}')?;
                continue;
            };
            f.write_str(if *written { "," } else { "" })?;
            *written = true;
            let parent = *parent;
            let depth = open.len();
            new_line(f, depth)?;
            write_key(parent, position, f)?;
            f.write_str(": ")?;
            let inside = child.inside();
            if let Some(kind) = kind_of_child(parent, position, child) {
                self.variable(kind, child, depth, f)?;
            } else if inside.kind() == NodeKind::Leaf {
                self.value(child, depth, f)?;
            } else {
                f.write_char('{')?;
                open.push((inside, self.children(inside), false));
            }
        }
        Ok(())
    }

    /// Returns the children that contain leaves, with their positions among all children.
    fn children<'t>(&self, node: NodeView<'t>) -> Children<'t> {
        let children = node.children().enumerate();
        let shown: Vec<(usize, NodeView<'t>)> = children
            .filter(|(_, child)| !self.leaves_of(*child).is_empty())
            .collect();
        shown.into_iter()
    }

    /// Writes a variable: its kind, the number and size of its elements, its value and its metadata.
    fn variable(
        &self,
        kind: LeafKind,
        node: NodeView<'_>,
        depth: usize,
        f: &mut impl fmt::Write,
    ) -> fmt::Result {
        write!(f, "{kind}(")?;
        let arrays = self.leaves_of(node).iter().filter_map(Leaf::array_info);
        let (elements, bytes) = arrays.fold((0_usize, 0_usize), |(elements, bytes), info| {
            (elements + info.len(), bytes + info.bytes())
        });
        if elements > 0 {
            write!(f, " # {} ({})", in_groups(elements), size(bytes))?;
        }
        new_line(f, depth + 1)?;
        f.write_str("value=")?;
        self.value(node, depth + 1, f)?;
        for (name, data) in metadata(node).iter() {
            f.write_char(',')?;
            new_line(f, depth + 1)?;
            write!(f, "{name}={data}")?;
        }
        new_line(f, depth)?;
        f.write_char(')')
    }

    /// Writes a subtree as a [`Tree`] is displayed. All lines except the first are indented.
    fn value(&self, node: NodeView<'_>, depth: usize, f: &mut impl fmt::Write) -> fmt::Result {
        let mut leaves = self.leaves_of(node).iter();
        let mut text = String::new();
        node.to_treedef()
            .write_with(&mut text, Notation::Value, |text| {
                write!(text, "{}", Shown(expect_next(&mut leaves, LEAVES)))
            })?;
        let mut lines = text.split('\n');
        f.write_str(lines.next().unwrap_or_default())?;
        lines.try_for_each(|line| {
            new_line(f, depth)?;
            f.write_str(line)
        })
    }
}

/// Returns the kind that the field of a child determines. If the field determines no kind, returns the kind of a
/// reference in the field.
fn kind_of_child(parent: NodeView<'_>, position: usize, child: NodeView<'_>) -> Option<LeafKind> {
    let of_field = parent.shape().field_kind(position);
    of_field
        .and_then(LeafKind::below_field)
        .or_else(|| kind_of_reference(child))
}

/// Iterates over the transparent nodes from `node` down, and stops before the first node that is not transparent.
fn transparent(node: NodeView<'_>) -> impl Iterator<Item = NodeView<'_>> {
    let passed = node.inside().position() - node.position();
    node.below().take(passed)
}

/// Returns the kind that a reference itself determines. The reference is `node`, or is inside of transparent nodes that
/// begin with `node`.
fn kind_of_reference(node: NodeView<'_>) -> Option<LeafKind> {
    let mut kinds = transparent(node).flat_map(|node| node.shape().fields());
    kinds.find_map(|(_, kind)| kind.and_then(LeafKind::of_field))
}

/// Returns the metadata of a variable, collected from the transparent nodes at the root of the variable.
fn metadata(node: NodeView<'_>) -> Metadata {
    let mut all = Metadata::new();
    for node in transparent(node) {
        all.extend(metadata_of(node).unwrap_or_default());
    }
    all
}

/// Writes the key of a child as Python does: a text key in quotes, a position as a number.
fn write_key(parent: NodeView<'_>, position: usize, f: &mut impl fmt::Write) -> fmt::Result {
    match (parent.kind(), parent.shape().field_name(position)) {
        (NodeKind::Dict | NodeKind::OrderedDict, _) => match parent.aux().get(position) {
            Some(key) => write!(f, "{key:?}"),
            None => Ok(()),
        },
        (NodeKind::Struct | NodeKind::NamedTuple, Some(name)) => write_quoted(f, name),
        _ => write!(f, "{position}"),
    }
}

/// Displays a leaf as in a tree.
struct Shown<'l, L>(&'l L);

impl<L: Leaf> fmt::Display for Shown<'_, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display(f)
    }
}

fn new_line(f: &mut impl fmt::Write, depth: usize) -> fmt::Result {
    write!(f, "\n{:width$}", "", width = depth * INDENT)
}

/// Formats a count with its digits in groups of three: `300,000`.
fn in_groups(count: usize) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a size in bytes as Flax does: in the largest unit (GB, MB or KB) that is less than the size, otherwise in B.
/// There is at most one decimal place.
fn size(bytes: usize) -> String {
    let units = [(1e9, "GB"), (1e6, "MB"), (1e3, "KB")];
    match units.iter().find(|(unit, _)| bytes as f64 > *unit) {
        None => format!("{} B", in_groups(bytes)),
        Some((unit, name)) => {
            let text = format!("{:.1}", bytes as f64 / unit);
            let (whole, tenths) = text.split_once('.').unwrap_or((&text, "0"));
            let whole = whole.parse().map_or_else(|_| whole.to_owned(), in_groups);
            format!("{whole}.{tenths} {name}")
        }
    }
}
