//! Prefixes: a structure that ends above another.
//!
//! A leaf of the prefix stands for a whole subtree; above its leaves the prefix has the nodes of the full
//! structure. `Some`, shared nodes and boxed objects have no counterpart in Python and are looked through: the leaf in
//! `Some` stands for what is in a `Some`, or for `None`, or for a value that is in none.

use std::cmp::Ordering;
use std::collections::HashSet;

use super::TreeDef;
use crate::base::error::{Difference, DifferenceKind, PrefixMisfit, TreeError};
use crate::node::shape::NodeKind;
use crate::node::statics::StaticBox;
use crate::trees::dynamic::Tree;

/// What counts as a fit of two structures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// They are equal.
    Equal,
    /// The first is a prefix of the second.
    Prefix,
    /// Both are prefixes of a third.
    CommonSuffix,
}

/// Where the walk through two structures meets; nodes are numbered in preorder.
enum Meeting {
    /// A leaf of the first, and what it stands for in the second.
    Leaf { full: usize },
    /// Nodes that differ. Below them nothing is compared, unless only static values differ.
    Differ {
        left: usize,
        right: usize,
        why: DifferenceKind,
    },
}

impl TreeDef {
    /// Walks through two structures at once. Preorder keeps the two in step: a subtree that is passed over in both
    /// ends at the next sibling in both.
    fn walk_with(&self, full: &Self, fit: Fit, mut visit: impl FnMut(Meeting) -> bool) {
        let (mut left, mut right) = (0, 0);
        loop {
            let (a, b) = match (self.0.nodes.get(left), full.0.nodes.get(right)) {
                (Some(&a), Some(&b)) => (a, b),
                (None, None) => return,
                _ => {
                    let why = DifferenceKind::NodeType;
                    visit(Meeting::Differ { left, right, why });
                    return;
                }
            };
            if fit != Fit::Equal {
                if a.shape.kind == NodeKind::Leaf {
                    if !visit(Meeting::Leaf { full: right }) {
                        return;
                    }
                    left += 1;
                    right += b.size as usize;
                    continue;
                }
                if a.shape.kind.is_transparent() {
                    left += 1;
                    right += usize::from(a.shape == b.shape);
                    continue;
                }
                if b.shape.kind.is_transparent() {
                    right += 1;
                    continue;
                }
                if fit == Fit::CommonSuffix && b.shape.kind == NodeKind::Leaf {
                    left += a.size as usize;
                    right += 1;
                    continue;
                }
            }
            let difference = self.difference_at(full, left, right);
            if let Some(why) = difference
                && !visit(Meeting::Differ { left, right, why })
            {
                return;
            }
            if matches!(difference, None | Some(DifferenceKind::Static)) {
                left += 1;
                right += 1;
            } else {
                left += a.size as usize;
                right += b.size as usize;
            }
        }
    }

    /// How two nodes differ, children aside.
    pub(super) fn difference_at(
        &self,
        other: &Self,
        left: usize,
        right: usize,
    ) -> Option<DifferenceKind> {
        let (a, b) = (self.0.nodes[left], other.0.nodes[right]);
        if a.shape != b.shape {
            return Some(DifferenceKind::NodeType);
        }
        let same_values = self.0.aux_of(left) == other.0.aux_of(right);
        if is_map(a.shape.kind) {
            return (!same_values).then_some(DifferenceKind::Keys);
        }
        if a.arity != b.arity {
            return Some(DifferenceKind::Arity);
        }
        (!same_values).then_some(DifferenceKind::Static)
    }

    /// All the ways in which the structures do not fit, from the root down.
    pub(crate) fn misfits(&self, full: &Self, fit: Fit) -> Vec<Difference> {
        let mut met = Vec::new();
        self.walk_with(full, fit, |meeting| {
            if let Meeting::Differ { left, right, why } = meeting {
                met.push((left, right, why));
            }
            true
        });
        let nodes: Vec<usize> = met.iter().map(|&(left, ..)| left).collect();
        let mut paths = self.node_paths(&nodes).into_iter();
        let mut found = Vec::new();
        for (left, right, why) in met {
            let path = paths.next().unwrap_or_default();
            for (left, right) in self.texts(full, left, right, why) {
                let path = path.clone();
                found.push(Difference {
                    path,
                    left,
                    right,
                    why,
                });
            }
        }
        found
    }

    /// What is in the one and in the other, for each difference between two nodes.
    fn texts(
        &self,
        other: &Self,
        left: usize,
        right: usize,
        why: DifferenceKind,
    ) -> Vec<(String, String)> {
        let (a, b) = (self.view(left), other.view(right));
        match why {
            DifferenceKind::Arity => {
                vec![(a.num_children().to_string(), b.num_children().to_string())]
            }
            DifferenceKind::Keys => {
                let keys = |of: &Self, node: usize| {
                    let arity = of.0.nodes[node].arity as usize;
                    let values = of.0.aux_of(node);
                    values[..arity.min(values.len())].to_vec()
                };
                vec![key_texts(&keys(self, left), &keys(other, right))]
            }
            DifferenceKind::Static => {
                let values = self.0.aux_of(left).iter().zip(other.0.aux_of(right));
                let names = a.shape().statics;
                let differing = values
                    .enumerate()
                    .filter(|(_, (a_value, b_value))| a_value != b_value);
                differing
                    .map(|(position, (a_value, b_value))| {
                        let name = names
                            .get(position)
                            .map_or_else(String::new, |name| format!("{name} = "));
                        (format!("{name}{a_value:?}"), format!("{name}{b_value:?}"))
                    })
                    .collect()
            }
            DifferenceKind::NodeType => {
                let (mut a_text, mut b_text) = (a.describe(), b.describe());
                if a_text == b_text {
                    // Two types of one name.
                    a_text = format!("{a_text} (`{}`)", (a.shape().type_name)());
                    b_text = format!("{b_text} (`{}`)", (b.shape().type_name)());
                }
                vec![(a_text, b_text)]
            }
        }
    }

    /// Whether this structure is `full` or ends above it: each of its leaves stands for a subtree of `full`.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::tree;
    /// let full = tree!({"weights": [1, 2], "bias": 3});
    /// assert!(tree!({"weights": 0, "bias": 0}).treedef().is_prefix_of(full.treedef()));
    /// assert!(!tree!({"weights": [0], "bias": 0}).treedef().is_prefix_of(full.treedef()));
    /// ```
    pub fn is_prefix_of(&self, full: &Self) -> bool {
        let mut fits = true;
        self.walk_with(full, Fit::Prefix, |meeting| {
            fits = matches!(meeting, Meeting::Leaf { .. });
            fits
        });
        fits
    }

    /// Every reason why this structure is no prefix of `full`, from the root down; none if it is. Below a difference
    /// nothing is compared, but where only static values differ.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::tree;
    /// let found = tree!([{"a": 1}, (2, 3)]).treedef().prefix_differences(tree!([{"b": 1}, [2, 3]]).treedef());
    /// let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    /// assert_eq!(found, [
    ///     "keys at [0]: ['a'] against ['b']; 'a' is missing, 'b' is too much",
    ///     "node type at [1]: a tuple of 2 against a list of 2",
    /// ]);
    /// ```
    pub fn prefix_differences(&self, full: &Self) -> Vec<Difference> {
        self.misfits(full, Fit::Prefix)
    }

    /// For each leaf of this prefix, the subtree of `tree` that it stands for.
    ///
    /// # Errors
    /// [`TreeError::Prefix`] with all differences, if this is no prefix of the tree's structure.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::tree;
    /// let subtrees = tree!({"a": 0, "b": 0}).treedef().flatten_up_to(&tree!({"a": [1, 2], "b": None}))?;
    /// assert_eq!(format!("{subtrees:?}"), "[[1, 2], None]");
    /// # Ok::<(), pytree_core::TreeError>(())
    /// ```
    pub fn flatten_up_to<L: Clone>(&self, tree: &Tree<L>) -> Result<Vec<Tree<L>>, TreeError> {
        self.subtrees_of(tree).ok_or_else(|| TreeError::Prefix {
            doing: "cannot take the subtrees at the leaves of a prefix",
            misfits: self.prefix_misfits(tree.treedef(), None),
        })
    }

    /// The reasons why this is no prefix of a tree, which may be one of several.
    fn prefix_misfits(&self, full: &Self, tree: Option<usize>) -> Vec<PrefixMisfit> {
        let differences = self.prefix_differences(full).into_iter();
        differences
            .map(|difference| PrefixMisfit { tree, difference })
            .collect()
    }

    /// As [`flatten_up_to`](Self::flatten_up_to), without reasons.
    fn subtrees_of<L: Clone>(&self, tree: &Tree<L>) -> Option<Vec<Tree<L>>> {
        let mut subtrees = Vec::with_capacity(self.num_leaves());
        let mut leaves = tree.leaves();
        let mut fits = true;
        self.walk_with(tree.treedef(), Fit::Prefix, |meeting| {
            match meeting {
                Meeting::Leaf { full } => {
                    let treedef = tree.treedef().subtree(full);
                    let count = treedef.num_leaves().min(leaves.len());
                    let (own, rest) = leaves.split_at(count);
                    leaves = rest;
                    subtrees.push(Tree::from_parts(treedef, own.to_vec()));
                }
                Meeting::Differ { .. } => fits = false,
            }
            fits
        });
        fits.then_some(subtrees)
    }
}

fn is_map(kind: NodeKind) -> bool {
    matches!(kind, NodeKind::Dict | NodeKind::OrderedDict)
}

/// The most keys that a text lists; the rest is counted.
const LISTED: usize = 20;

fn listed<'a>(keys: impl ExactSizeIterator<Item = &'a StaticBox>) -> String {
    let left_out = keys.len().saturating_sub(LISTED);
    let mut texts: Vec<String> = keys.take(LISTED).map(|key| format!("{key:?}")).collect();
    if left_out > 0 {
        texts.push(format!("and {left_out} more"));
    }
    texts.join(", ")
}

/// The keys of two maps; the second text also names those that are missing in it, and those too much.
fn key_texts(left: &[StaticBox], right: &[StaticBox]) -> (String, String) {
    let without = |keys: &'_ [StaticBox], other: &[StaticBox]| -> Vec<StaticBox> {
        let other: HashSet<&StaticBox> = other.iter().collect();
        let rest = keys.iter().filter(|key| !other.contains(key));
        rest.cloned().collect()
    };
    let note = |keys: Vec<StaticBox>, what: &str| match keys.len() {
        0 => None,
        1 => Some(format!("{} is {what}", listed(keys.iter()))),
        _ => Some(format!("{} are {what}", listed(keys.iter()))),
    };
    let missing = note(without(left, right), "missing");
    let extra = note(without(right, left), "too much");
    let notes: Vec<String> = missing.into_iter().chain(extra).collect();
    let notes = if notes.is_empty() {
        "the order differs".to_owned()
    } else {
        notes.join(", ")
    };
    (
        format!("[{}]", listed(left.iter())),
        format!("[{}]; {notes}", listed(right.iter())),
    )
}

/// The order of prefixes: less is a prefix that is not as long. Structures that differ otherwise are in no order, and
/// neither are two that are each a prefix of the other and not equal, as `Some(x)` and `x`.
impl PartialOrd for TreeDef {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        if self == other {
            return Some(Ordering::Equal);
        }
        match (self.is_prefix_of(other), other.is_prefix_of(self)) {
            (true, false) => Some(Ordering::Less),
            (false, true) => Some(Ordering::Greater),
            _ => None,
        }
    }
}

/// Trees of which one is a prefix of others.
impl<L> Tree<L> {
    /// The tree of the structure `full` that has, for each leaf of this prefix, copies of it in the whole subtree
    /// that it stands for.
    ///
    /// # Errors
    /// [`TreeError::Prefix`] with all differences, if this is no prefix of `full`.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::tree;
    /// let full = tree!([(1, 2), {"a": 3, "b": None}]);
    /// assert_eq!(tree!([7, 8]).broadcast_to(full.treedef())?.to_string(), "[(7, 7), {'a': 8, 'b': None}]");
    /// # Ok::<(), pytree_core::TreeError>(())
    /// ```
    pub fn broadcast_to(&self, full: &TreeDef) -> Result<Self, TreeError>
    where
        L: Clone,
    {
        if let Some(leaves) = self.spread(full) {
            let leaves = leaves.into_iter().cloned().collect();
            return Ok(Self::from_parts(full.clone(), leaves));
        }
        Err(TreeError::Prefix {
            doing: "cannot broadcast",
            misfits: self.treedef().prefix_misfits(full, None),
        })
    }

    /// For each leaf of the structure `full`, the leaf of this prefix that stands for it; `None` if it is none.
    pub(super) fn spread(&self, full: &TreeDef) -> Option<Vec<&L>> {
        let mut leaves = Vec::with_capacity(full.num_leaves());
        let mut own = self.leaves().iter();
        let mut fits = true;
        self.treedef().walk_with(full, Fit::Prefix, |meeting| {
            match (meeting, own.next()) {
                (Meeting::Leaf { full: node }, Some(leaf)) => {
                    let count = full.view(node).num_leaves();
                    leaves.extend(std::iter::repeat_n(leaf, count));
                }
                _ => fits = false,
            }
            fits
        });
        fits.then_some(leaves)
    }

    /// The tree with each leaf replaced by what `function` makes of it and of the subtrees of the `rest` that it
    /// stands for: this tree is a prefix of each of them.
    ///
    /// # Errors
    /// [`TreeError::Prefix`] with all differences of all of the `rest`, whose trees are counted from 0.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::tree;
    /// let rest = [tree!({"a": [1, 2], "b": 3}), tree!({"a": 4, "b": (5,)})];
    /// let shown = tree!({"a": "x", "b": "y"}).map_with(&rest, |leaf, rest| format!("{leaf} {rest:?}"))?;
    /// assert_eq!(shown.leaves(), ["'x' [[1, 2], 4]", "'y' [3, (5,)]"]);
    /// # Ok::<(), pytree_core::TreeError>(())
    /// ```
    pub fn map_with<M: Clone, U>(
        &self,
        rest: &[Tree<M>],
        mut function: impl FnMut(&L, &[Tree<M>]) -> U,
    ) -> Result<Tree<U>, TreeError> {
        let prefix = self.treedef();
        let mut columns = Vec::with_capacity(rest.len());
        let mut misfits = Vec::new();
        for (position, tree) in rest.iter().enumerate() {
            if let Some(subtrees) = prefix.subtrees_of(tree) {
                columns.push(subtrees.into_iter());
            } else {
                misfits.extend(prefix.prefix_misfits(tree.treedef(), Some(position)));
            }
        }
        if !misfits.is_empty() {
            return Err(TreeError::Prefix {
                doing: "cannot map trees together",
                misfits,
            });
        }
        let leaves = self.leaves().iter().map(|leaf| {
            let subtrees: Vec<Tree<M>> = columns.iter_mut().filter_map(Iterator::next).collect();
            function(leaf, &subtrees)
        });
        let leaves = leaves.collect();
        Ok(Tree::from_parts(prefix.clone(), leaves))
    }
}
