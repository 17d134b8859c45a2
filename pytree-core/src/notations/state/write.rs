//! Writing a state line by line, in the layout of Flax NNX.

use std::fmt::{self, Write as _};

use crate::base::bug::{LEAVES, expect_at, expect_next};
use crate::base::kind::LeafKind;
use crate::base::text::write_quoted;
use crate::module::annotated::{Metadata, metadata_of};
use crate::node::leaf::Leaf;
use crate::node::shape::{Field, NodeKind};
use crate::treedef::{Notation, TreeDef};
use crate::trees::dynamic::Tree;

/// How far each level is indented, in spaces.
const INDENT: usize = 2;

/// Writes a tree as a state.
pub(super) fn write_state<L: Leaf>(tree: &Tree<L>, f: &mut impl fmt::Write) -> fmt::Result {
    let writer = Writer {
        treedef: tree.treedef(),
        leaves: tree.leaves(),
        before: leaves_before(tree.treedef()),
    };
    f.write_str("State(")?;
    let root = writer.treedef.below_transparent(0);
    if let Some(kind) = writer.kind_of_reference(0) {
        writer.variable(kind, 0, 0, f)?;
    } else if writer.treedef.view(root).kind() == NodeKind::Leaf {
        writer.value(0, 0, f)?;
    } else {
        writer.entries(root, f)?;
    }
    f.write_char(')')
}

/// For each node, and at last for the end, how many leaves come before it.
pub(super) fn leaves_before(treedef: &TreeDef) -> Vec<usize> {
    let mut before = vec![0];
    let mut leaves = 0;
    for node in &treedef.0.nodes {
        leaves += usize::from(node.shape.kind == NodeKind::Leaf);
        before.push(leaves);
    }
    before
}

struct Writer<'t, L> {
    treedef: &'t TreeDef,
    leaves: &'t [L],
    before: Vec<usize>,
}

impl<L: Leaf> Writer<'_, L> {
    /// The leaves of the subtree at a node.
    fn leaves_of(&self, node: usize) -> &[L] {
        let end = node + self.treedef.0.nodes[node].size as usize;
        expect_at(self.leaves, self.before[node]..self.before[end], LEAVES)
    }

    /// Writes what is below a node as a dictionary, without recursion: a tree may be of any depth.
    fn entries(&self, root: usize, f: &mut impl fmt::Write) -> fmt::Result {
        // Of each dictionary that is open: its node, the children to come, and whether one was written.
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
            self.key(parent, position, f)?;
            f.write_str(": ")?;
            let inside = self.treedef.below_transparent(child);
            if let Some(kind) = self.kind_of_child(parent, position, child) {
                self.variable(kind, child, depth, f)?;
            } else if self.treedef.view(inside).kind() == NodeKind::Leaf {
                self.value(child, depth, f)?;
            } else {
                f.write_char('{')?;
                open.push((inside, self.children(inside), false));
            }
        }
        Ok(())
    }

    /// The children that have leaves, with their positions.
    fn children(&self, node: usize) -> std::vec::IntoIter<(usize, usize)> {
        let children = self.treedef.child_positions(node).into_iter().enumerate();
        let shown: Vec<(usize, usize)> = children
            .filter(|(_, child)| !self.leaves_of(*child).is_empty())
            .collect();
        shown.into_iter()
    }

    /// The kind that is decided by the field of a child, or else by a reference in it.
    fn kind_of_child(&self, parent: usize, position: usize, child: usize) -> Option<LeafKind> {
        let of = |node: usize, position: usize| {
            let fields: &[Field] = self.treedef.0.nodes[node].shape.fields;
            fields.get(position)?.kind.and_then(LeafKind::of_field)
        };
        of(parent, position).or_else(|| self.kind_of_reference(child))
    }

    /// The kind that a reference at a node, or in transparent nodes there, says itself.
    fn kind_of_reference(&self, node: usize) -> Option<LeafKind> {
        let inside = self.treedef.below_transparent(node);
        let nodes = self.treedef.0.nodes[node..inside].iter();
        let mut fields = nodes.flat_map(|node| node.shape.fields);
        fields.find_map(|field| field.kind.and_then(LeafKind::of_field))
    }

    /// Writes the key of a child as Python would: a text in quotes, a position as a number.
    fn key(&self, parent: usize, position: usize, f: &mut impl fmt::Write) -> fmt::Result {
        let shape = self.treedef.0.nodes[parent].shape;
        match (shape.kind, shape.fields.get(position)) {
            (NodeKind::Dict | NodeKind::OrderedDict, _) => {
                match self.treedef.0.aux_of(parent).get(position) {
                    Some(key) => write!(f, "{key:?}"),
                    None => Ok(()),
                }
            }
            (NodeKind::Struct | NodeKind::NamedTuple, Some(field)) => write_quoted(f, field.name),
            _ => write!(f, "{position}"),
        }
    }

    /// Writes a variable: its kind, how much it holds, its value and its metadata.
    fn variable(
        &self,
        kind: LeafKind,
        node: usize,
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
        for (name, data) in self.metadata(node).iter() {
            f.write_char(',')?;
            new_line(f, depth + 1)?;
            write!(f, "{name}={data}")?;
        }
        new_line(f, depth)?;
        f.write_char(')')
    }

    /// What is said of all of a variable: the metadata of the transparent nodes at its root.
    fn metadata(&self, node: usize) -> Metadata {
        let inside = self.treedef.below_transparent(node);
        let mut all = Metadata::new();
        for node in node..inside {
            let shape = self.treedef.0.nodes[node].shape;
            let said = metadata_of(shape, self.treedef.0.aux_of(node));
            all.extend(said.unwrap_or_default());
        }
        all
    }

    /// Writes a subtree as trees are shown, its further lines indented.
    fn value(&self, node: usize, depth: usize, f: &mut impl fmt::Write) -> fmt::Result {
        let mut leaves = self.leaves_of(node).iter();
        let mut text = String::new();
        self.treedef
            .subtree(node)
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

/// A leaf as it displays.
struct Shown<'l, L>(&'l L);

impl<L: Leaf> fmt::Display for Shown<'_, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display(f)
    }
}

fn new_line(f: &mut impl fmt::Write, depth: usize) -> fmt::Result {
    write!(f, "\n{:width$}", "", width = depth * INDENT)
}

/// A count with its digits in groups of three: `300,000`.
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

/// A size in the largest decimal unit that it is more than one of, to one decimal place, as Flax writes it.
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
