//! The items of a builder. Puts the nodes in their final order, and assigns the numbers that aliases use.
//!
//! The final order may differ from the order in which nodes were added, because the entries of a dictionary are sorted.
//! The first occurrence of a shared node in the final order becomes the node, and the later occurrences become aliases.

use std::collections::HashMap;

use pytree_base::bug::bug;
use pytree_base::suggest::Effort;

use super::problems::Problems;
use crate::base::path::KeyPath;
use crate::node::insertion::sort_entries;
use crate::node::shape::{self, NodeKind, OwnedShape};
use crate::node::statics::StaticBox;
use crate::treedef::Builder;
use crate::trees::dynamic::Tree;

/// The position of a label in [`Labels::entries`].
pub(super) type LabelAt = usize;

/// The labels of shared nodes and references.
#[derive(Debug, Default)]
pub(super) struct Labels {
    pub(super) positions: HashMap<String, LabelAt>,
    /// For each label, its text and the position of its node in [`TreeBuilder::items`]. The position is `None` until
    /// the node is added.
    pub(super) entries: Vec<(String, Option<usize>)>,
}

impl Labels {
    /// Returns the position of a label, and adds the label if it is new.
    pub(super) fn position(&mut self, label: &str) -> LabelAt {
        if let Some(&position) = self.positions.get(label) {
            return position;
        }
        let position = self.entries.len();
        self.positions.insert(label.to_owned(), position);
        self.entries.push((label.to_owned(), None));
        position
    }
}

/// An item that was added to a builder: a leaf, a tree, a node or an edge.
#[derive(Debug)]
pub(super) enum Item<L> {
    Leaf(L),
    Tree(Tree<L>),
    /// A further occurrence of the shared node or the reference with this label.
    Again(LabelAt),
    /// A weak edge to the node with this label. `None` means that the edge has no target.
    Weak(Option<LabelAt>),
    Node {
        /// The label of a shared node or a reference.
        label: Option<LabelAt>,
        shape: OwnedShape,
        /// The static values; for a map, the keys.
        aux: Vec<StaticBox>,
        children: Vec<usize>,
    },
}

/// The index and the depth of a labelled node that was entered.
#[derive(Clone, Copy)]
struct Numbered {
    /// The index of the node among the shared nodes and references, by which aliases refer to it.
    number: usize,
    /// The depth of the node while its children are added. `None` after all children are added.
    open: Option<usize>,
}

/// A node whose children are being added: the children that are not yet added, and the label of the node.
struct Open {
    children: std::vec::IntoIter<usize>,
    label: Option<LabelAt>,
    is_reference: bool,
}

struct Order<'l, L> {
    items: Vec<Option<Item<L>>>,
    labels: &'l Labels,
    problems: &'l mut Problems,
    builder: Builder,
    leaves: Vec<L>,
    /// The nodes whose children are being added, from the root down. The first entry is not a node: its only child is
    /// the root.
    open: Vec<Open>,
    /// The depths of those nodes in `open` that are references.
    references: Vec<usize>,
    /// For each label, the index and depth of its node. `None` if the node was not entered yet.
    numbered: Vec<Option<Numbered>>,
    /// The weak edges: the position of the alias in the treedef, the label of the target, and the path of the edge.
    weak: Vec<(usize, LabelAt, KeyPath)>,
}

/// Builds the tree from the items that were added to a builder. The first item is the root, and each other item is the
/// child of one node.
pub(super) fn in_order<L>(
    items: Vec<Item<L>>,
    labels: &Labels,
    problems: &mut Problems,
) -> Tree<L> {
    let mut order = Order {
        items: items.into_iter().map(Some).collect(),
        numbered: vec![None; labels.entries.len()],
        labels,
        problems,
        builder: Builder::default(),
        leaves: Vec::new(),
        open: vec![Open {
            children: vec![0].into_iter(),
            label: None,
            is_reference: false,
        }],
        references: Vec::new(),
        weak: Vec::new(),
    };
    while let Some(open) = order.open.last_mut() {
        match open.children.next() {
            Some(at) => order.place(at),
            None => order.end(),
        }
    }
    order.set_targets();
    Tree::from_parts(order.builder.finish(), order.leaves)
}

impl<L> Order<'_, L> {
    /// Ends the innermost node in `open`, whose children are all added.
    fn end(&mut self) {
        let Some(open) = self.open.pop() else {
            return;
        };
        self.builder.exit();
        if open.is_reference {
            self.references.pop();
        }
        if let Some(numbered) = open.label.and_then(|label| self.numbered[label].as_mut()) {
            numbered.open = None;
        }
    }

    /// Adds the item at position `at` of `items` as the next child.
    fn place(&mut self, at: usize) {
        match self.items.get_mut(at).and_then(Option::take) {
            Some(Item::Leaf(leaf)) => {
                self.builder.leaf(&shape::LEAF);
                self.leaves.push(leaf);
            }
            Some(Item::Tree(tree)) => {
                let (leaves, treedef) = tree.into_parts();
                self.builder.subtree(&treedef);
                self.leaves.extend(leaves);
            }
            Some(Item::Again(label)) => self.again(label),
            Some(Item::Weak(label)) => {
                self.builder.enter(&shape::WEAK, 1);
                if let Some(label) = label {
                    let path = self.builder.path();
                    self.weak.push((self.builder.position(), label, path));
                }
                self.builder.alias(None);
                self.builder.exit();
            }
            Some(Item::Node {
                label,
                shape,
                aux,
                children,
            }) => self.begin(label, &shape, aux, children),
            None => bug("each node to be the child of exactly one node"),
        }
    }

    fn begin(
        &mut self,
        label: Option<LabelAt>,
        shape: &OwnedShape,
        aux: Vec<StaticBox>,
        children: Vec<usize>,
    ) {
        let kind = shape.get().kind();
        let (aux, children) = if kind == NodeKind::Dict {
            let (mut keys, children, order) = sort_entries(aux.into_iter().zip(children).collect());
            keys.push(StaticBox::new(order));
            (keys, children)
        } else {
            (aux, children)
        };
        let depth = self.open.len();
        if let Some(label) = label {
            self.numbered[label] = Some(Numbered {
                number: self.builder.next_number(),
                open: Some(depth),
            });
        }
        self.builder.enter_shape(shape.get(), children.len());
        aux.into_iter().for_each(|value| self.builder.aux(value));
        let is_reference = kind == NodeKind::Reference;
        if is_reference {
            self.references.push(depth);
        }
        self.open.push(Open {
            children: children.into_iter(),
            label,
            is_reference,
        });
    }

    /// Adds an occurrence of a labelled node: the node itself if this is its first occurrence, otherwise an alias.
    fn again(&mut self, label: LabelAt) {
        if let Some(Numbered { number, open }) = self.numbered[label] {
            // A reference is created before its content. So a node can contain an alias of itself if the node is a
            // reference, or if there is a reference between the node and the alias.
            if open.is_some_and(|open| self.references.last().is_none_or(|&last| last < open)) {
                let what = format!(
                    "the shared node `{}` contains itself; use a weak edge or a reference",
                    self.labels.entries[label].0
                );
                self.problems.add(|| self.builder.path(), &what);
            }
            self.builder.alias(Some(number));
            return;
        }
        let (_, place) = self.labels.entries[label];
        let Some(place) = place else {
            let path = self.builder.path();
            self.unknown(label, path);
            self.builder.alias(None);
            return;
        };
        let node = self.items[place].replace(Item::Again(label));
        if let Some(Item::Node {
            shape,
            aux,
            children,
            ..
        }) = node
        {
            self.begin(Some(label), &shape, aux, children);
        } else {
            bug("a labelled node that was not added before");
        }
    }

    /// Sets the targets of all weak edges. A target may come after the edge, so this function runs after all nodes are
    /// added.
    fn set_targets(&mut self) {
        for (alias, label, path) in std::mem::take(&mut self.weak) {
            match self.numbered[label] {
                Some(Numbered { number, .. }) => self.builder.set_target(alias, Some(number)),
                None => self.unknown(label, path),
            }
        }
    }

    #[cold]
    fn unknown(&mut self, label: LabelAt, path: KeyPath) {
        let (label, _) = &self.labels.entries[label];
        let labels = self.labels.entries.iter();
        let known = labels.filter(|(_, place)| place.is_some());
        let nearest = Effort::default().nearest(label, known.map(|(label, _)| (label, label)));
        let nearest = nearest.filter(|&(_, edits)| edits <= label.len() / 2);
        let hint = nearest.map_or_else(
            || "give a node this label with `begin_shared` or `begin_reference`".to_owned(),
            |(nearest, _)| format!("did you mean `{nearest}`?"),
        );
        let what = format!("no node has the label `{label}`; {hint}");
        self.problems.add(|| path, &what);
    }
}
