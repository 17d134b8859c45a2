//! Prefixes of structures.
//!
//! A leaf of the prefix matches a whole subtree of the full structure. All other nodes of the prefix are also nodes of
//! the full structure. `Some`, shared nodes and boxed objects have no counterpart in Python, so the comparison skips
//! these nodes: a leaf in a `Some` matches the content of a `Some`, a `None`, or a value outside of a `Some`.

use std::cmp::Ordering;
use std::collections::HashSet;

use super::cursor::NodeView;
use super::structure::TreeDef;
use crate::base::error::{Difference, DifferenceKind, PrefixMisfit};
use crate::node::shape::NodeKind;
use crate::node::statics::StaticBox;

/// The relation that a comparison of two structures checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// Both structures are equal.
    Equal,
    /// Both structures are equal, except that a `Some` in one structure may correspond to its content in the other.
    EqualButForSome,
    /// The first structure is a prefix of the second.
    Prefix,
    /// Both structures are prefixes of a third structure.
    CommonSuffix,
}

/// An event of a walk through two structures. A number is the position of a node in preorder.
pub(crate) enum Meeting {
    /// A leaf of the first structure, and the node of the second structure that the leaf matches.
    Leaf { full: usize },
    /// Nodes that differ. The children of such nodes are not compared, unless only static values differ.
    Differ {
        left: usize,
        right: usize,
        why: DifferenceKind,
    },
}

impl TreeDef {
    /// Walks through two structures together, until `visit` returns `false`. If the nodes differ, the walk skips the
    /// subtrees of both nodes. So the current nodes of the two structures always correspond.
    pub(crate) fn walk_with(&self, full: &Self, fit: Fit, mut visit: impl FnMut(Meeting) -> bool) {
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
            if fit == Fit::EqualButForSome && a.shape.kind != b.shape.kind {
                if self.is_implied_some(left) {
                    left += 1;
                    continue;
                }
                if full.is_implied_some(right) {
                    right += 1;
                    continue;
                }
            }
            if matches!(fit, Fit::Prefix | Fit::CommonSuffix) {
                if a.shape.kind == NodeKind::Leaf {
                    if !visit(Meeting::Leaf { full: right }) {
                        return;
                    }
                    left += 1;
                    right += b.size as usize;
                    continue;
                }
                if a.shape.kind.is_transparent() {
                    right += usize::from(self.0.shape(left) == full.0.shape(right));
                    left += 1;
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
            let mut difference = self.difference_at(full, left, right);
            if matches!(fit, Fit::Equal | Fit::EqualButForSome)
                && self.has_other_target(full, left, right)
            {
                difference = Some(DifferenceKind::NodeType);
            }
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

    /// Returns whether the nodes at `left` and `right` are aliases of different nodes, refer to different nodes of a
    /// function's argument, or are leaves that different splits removed.
    fn has_other_target(&self, other: &Self, left: usize, right: usize) -> bool {
        let (a, b) = (self.view(left), other.view(right));
        a.target() != b.target()
            || a.number_in_argument() != b.number_in_argument()
            || a.splits() != b.splits()
    }

    /// Returns how two nodes differ, without comparing their children.
    pub(super) fn difference_at(
        &self,
        other: &Self,
        left: usize,
        right: usize,
    ) -> Option<DifferenceKind> {
        let (a, b) = (self.0.nodes[left], other.0.nodes[right]);
        if self.0.shape(left) != other.0.shape(right) {
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

    /// Returns all differences that prevent the structures from having the relation `fit`, from the root down.
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

    /// Returns the differences between two nodes, each as a text for the left node and a text for the right node.
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
                let keys = |node: NodeView<'_>| {
                    let values = node.aux();
                    values[..node.num_children().min(values.len())].to_vec()
                };
                vec![key_texts(&keys(a), &keys(b))]
            }
            DifferenceKind::Static => {
                let values = a.aux().iter().zip(b.aux());
                let shape = a.shape();
                let differing = values
                    .enumerate()
                    .filter(|(_, (a_value, b_value))| a_value != b_value);
                differing
                    .map(|(position, (a_value, b_value))| {
                        let name = shape
                            .static_name(position)
                            .map_or_else(String::new, |name| format!("{name} = "));
                        (format!("{name}{a_value:?}"), format!("{name}{b_value:?}"))
                    })
                    .collect()
            }
            DifferenceKind::NodeType => {
                let (a_text, b_text) = (a.describe(), b.describe());
                if a_text != b_text {
                    return vec![(a_text, b_text)];
                }
                if a.kind() == NodeKind::Absent {
                    let text = |node: NodeView<'_>| match node.splits() {
                        0 => "a leaf that the split removed".to_owned(),
                        1 => "a leaf that was absent before the split".to_owned(),
                        splits => format!("a leaf that was absent before the last {splits} splits"),
                    };
                    return vec![(text(a), text(b))];
                }
                // Unequal shapes with the same name differ in the fields, the kinds of the fields, the static fields or
                // the family.
                let fields = (a.shape().with_fields(), b.shape().with_fields());
                vec![if fields.0 == fields.1 {
                    let family =
                        |text, node: NodeView<'_>| format!("`{text}`, {}", node.kind().family());
                    (family(fields.0, a), family(fields.1, b))
                } else {
                    (format!("`{}`", fields.0), format!("`{}`", fields.1))
                }]
            }
        }
    }

    /// Returns whether this structure is a prefix of `full`: each of its leaves matches a subtree of `full`.
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

    /// Returns every reason why this structure is not a prefix of `full`, from the root down.
    ///
    /// The result is empty if the structure is a prefix. The children of nodes that differ are not compared, unless
    /// only static values differ.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::tree;
    /// let found = tree!([{"a": 1}, (2, 3)]).treedef().prefix_differences(tree!([{"b": 1}, [2, 3]]).treedef());
    /// let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    /// assert_eq!(found, [
    ///     "keys at [0]: ['a'] against ['b']; 'a' is missing, 'b' is unexpected",
    ///     "node type at [1]: a tuple of 2 against a list of 2",
    /// ]);
    /// ```
    #[doc(alias = "jax.tree_util.prefix_errors")]
    pub fn prefix_differences(&self, full: &Self) -> Vec<Difference> {
        self.misfits(full, Fit::Prefix)
    }

    /// Returns the reasons why this structure is not a prefix of `full`. If `full` is one of several trees, `tree` is
    /// its index.
    pub(crate) fn prefix_misfits(&self, full: &Self, tree: Option<usize>) -> Vec<PrefixMisfit> {
        let differences = self.prefix_differences(full).into_iter();
        differences
            .map(|difference| PrefixMisfit { tree, difference })
            .collect()
    }
}

fn is_map(kind: NodeKind) -> bool {
    matches!(kind, NodeKind::Dict | NodeKind::OrderedDict)
}

/// The maximal number of keys that an error text lists. If there are more keys, the text says how many.
const LISTED: usize = 20;

fn listed<'a>(keys: impl ExactSizeIterator<Item = &'a StaticBox>) -> String {
    let left_out = keys.len().saturating_sub(LISTED);
    let mut texts: Vec<String> = keys.take(LISTED).map(|key| format!("{key:?}")).collect();
    if left_out > 0 {
        texts.push(format!("and {left_out} more"));
    }
    texts.join(", ")
}

/// Returns a text for the keys of each of two maps. The second text also lists the keys that only one of the maps has.
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
    let extra = note(without(right, left), "unexpected");
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

/// Orders structures: `a < b` if `a` is a prefix of `b` and `b` is not a prefix of `a`. Two unequal structures have no
/// order if neither is a prefix of the other. Two structures also have no order if each is a prefix of the other, such
/// as `Some(x)` and `x`.
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
