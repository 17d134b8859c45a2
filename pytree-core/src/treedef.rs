//! Treedefs: the structure of a tree as a value.
//!
//! A treedef is a flat array of nodes in preorder beside the static values and keys of all of them.
//! It is compared, hashed and walked without recursion, so its depth has no bound. Invariants:
//! the subtree of node `i` is `nodes[i .. i + nodes[i].size]`; the static values of node `i` are
//! `aux[nodes[i].aux .. nodes[i + 1].aux]`; places that hold a leaf and places whose leaf is absent are
//! nodes without children.

mod aliases;
mod build;
mod common;
mod compare;
mod compose;
mod display;
mod keys;
mod missing;
mod prefix;
mod serial;
mod statics;
mod walk;

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock};

pub(crate) use self::aliases::Aliases;
pub(crate) use self::build::{Builder, count, target_of};
pub(crate) use self::common::no_common_suffix;
pub use self::compose::NodeView;
pub(crate) use self::display::Notation;
use self::display::write_tree;
use self::keys::child_key;
pub(crate) use self::keys::key_below;
pub(crate) use self::keys::path_of;
pub(crate) use self::prefix::{Fit, Meeting};
pub(crate) use self::walk::Step;
use crate::base::kind::LeafKind;
use crate::base::path::{Key, KeyPath};
use crate::node::shape::{self, NodeKind, NodeShape};
use crate::node::statics::StaticBox;

/// One node of a treedef.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    pub(crate) shape: &'static NodeShape,
    /// The number of children.
    pub(crate) arity: u32,
    /// The number of nodes of the subtree, this one included.
    pub(crate) size: u32,
    /// Where its static values begin.
    pub(crate) aux: u32,
    /// Of an alias, the number of the shared node or reference it leads to, counted in the order in which they begin,
    /// or [`NOTHING`]; of a node of the argument, the number there. Zero for all others.
    pub(crate) target: u32,
}

/// The number of an alias that leads to nothing.
pub(crate) const NOTHING: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) nodes: Vec<Node>,
    pub(crate) aux: Vec<StaticBox>,
    leaves: usize,
    /// No node is deeper; often it is the depth.
    depth: usize,
    /// How many nodes aliases may refer to.
    pub(crate) numbered: usize,
    /// Computed when it is first asked for: comparing needs none.
    hash: OnceLock<u64>,
    /// The positions of the nodes that aliases may refer to, found when they are first asked for.
    numbered_at: OnceLock<Box<[usize]>>,
}

/// What is counted of the nodes of a treedef.
#[derive(Clone, Copy, Debug)]
struct Counts {
    leaves: usize,
    depth: usize,
    numbered: usize,
}

/// The structure of a tree: nodes, keys and static values, without the leaves.
///
/// Two treedefs are equal if their descriptions are: the families of the nodes, the names of types without modules and
/// generic arguments, the fields with their kinds, and keys and static values. The Rust types are compared when a value
/// is built. So a structure that was stored fits also when its type has moved. Of an opaque static value, such as a
/// function, bytes hold a text only: what is read of it differs from every value. Cloning shares the treedef.
///
/// # Examples
/// ```
/// use pytree_core::{tree, Tree};
/// let structure = tree::structure(&vec![(1.0_f32, 2.0_f32)]);
/// assert_eq!(structure.to_string(), "PyTreeDef([(*, *)])");
/// assert_eq!(structure.num_leaves(), 2);
/// ```
#[derive(Clone)]
pub struct TreeDef(pub(crate) Arc<Inner>);

impl TreeDef {
    /// The treedef of a single leaf.
    pub fn leaf() -> Self {
        let mut builder = Builder::default();
        builder.leaf(&shape::LEAF);
        builder.finish()
    }

    /// The number of leaves.
    pub fn num_leaves(&self) -> usize {
        self.0.leaves
    }

    /// The number of nodes, leaves included.
    pub fn num_nodes(&self) -> usize {
        self.0.nodes.len()
    }

    /// The family of the root.
    pub fn kind(&self) -> NodeKind {
        self.0
            .nodes
            .first()
            .map_or(NodeKind::Leaf, |root| root.shape.kind)
    }

    /// The treedefs of the root's children.
    pub fn children(&self) -> Vec<Self> {
        let mut children = Vec::new();
        let mut at = 1;
        while at < self.0.nodes.len() {
            children.push(self.subtree(at));
            at += self.0.nodes[at].size as usize;
        }
        children
    }

    /// The paths of the leaves, in order.
    pub fn leaf_paths(&self) -> Vec<KeyPath> {
        let mut paths = Vec::with_capacity(self.num_leaves());
        self.walk_places(|place| {
            if place.holds_leaf {
                paths.push(place.path.clone());
            }
        });
        paths
    }

    /// The kinds of the leaves, in order.
    pub fn leaf_kinds(&self) -> Vec<Option<LeafKind>> {
        let mut kinds = Vec::with_capacity(self.num_leaves());
        self.walk_decisions(
            |kind| kind,
            |holds_leaf, kind| {
                if holds_leaf {
                    kinds.push(kind);
                }
            },
        );
        kinds
    }

    /// For each leaf, in order, whether only tuples are above it.
    pub fn is_tuple_member(&self) -> Vec<bool> {
        let mut members = Vec::with_capacity(self.num_leaves());
        // The end of the subtree of the node that is not a tuple and encloses the walk, if any.
        let mut enclosed_until = 0;
        for (at, node) in self.0.nodes.iter().enumerate() {
            if node.shape.kind == NodeKind::Leaf {
                members.push(at >= enclosed_until);
            } else if node.shape.kind != NodeKind::Tuple && at >= enclosed_until {
                enclosed_until = at + node.size as usize;
            }
        }
        members
    }

    pub(crate) fn child_positions(&self, node: usize) -> Vec<usize> {
        let mut positions = Vec::with_capacity(self.0.nodes[node].arity as usize);
        let mut at = node + 1;
        for _ in 0..self.0.nodes[node].arity {
            positions.push(at);
            at += self.0.nodes[at].size as usize;
        }
        positions
    }

    /// The key of a node's child; none below a transparent node.
    pub(crate) fn child_key(&self, node: usize, position: usize) -> Option<Key> {
        child_key(&self.0, node, position)
    }

    /// The subtree at a node as a treedef of its own. An alias in it of a node that is not becomes one of nothing.
    pub(crate) fn subtree(&self, node: usize) -> Self {
        if node == 0 {
            return self.clone();
        }
        let size = self.0.nodes[node].size as usize;
        let nodes = &self.0.nodes[node..node + size];
        let aux_start = nodes[0].aux;
        let aux_end = self
            .0
            .nodes
            .get(node + size)
            .map_or(self.0.aux.len(), |next| next.aux as usize);
        let mut nodes: Vec<Node> = nodes
            .iter()
            .map(|node| Node {
                aux: node.aux - aux_start,
                ..*node
            })
            .collect();
        let aux = self.0.aux[aux_start as usize..aux_end].to_vec();
        if self.0.numbered > 0 {
            let numbered_before = |end: usize| {
                let numbered = self.0.numbered_nodes();
                numbered.partition_point(|&at| at < end)
            };
            let before = numbered_before(node);
            let own = numbered_before(node + size) - before;
            for node in nodes.iter_mut().filter(|node| node.target().is_some()) {
                let inside = node.target().and_then(|number| number.checked_sub(before));
                node.target = target_of(inside.filter(|&number| number < own));
            }
        }
        Self::from_parts(nodes, aux)
    }

    /// A treedef from its arrays, whose invariants hold already.
    pub(crate) fn from_parts(nodes: Vec<Node>, aux: Vec<StaticBox>) -> Self {
        let count = |counts: fn(NodeKind) -> bool| {
            let kinds = nodes.iter().map(|node| node.shape.kind);
            kinds.filter(|&kind| counts(kind)).count()
        };
        let leaves = count(|kind| kind == NodeKind::Leaf);
        let numbered = count(NodeKind::is_numbered);
        let mut depth = 0;
        let mut ends: Vec<usize> = Vec::new();
        for (at, node) in nodes.iter().enumerate() {
            while ends.last().is_some_and(|&end| end <= at) {
                ends.pop();
            }
            if node.arity > 0 {
                ends.push(at + node.size as usize);
                depth = depth.max(ends.len());
            }
        }
        let counts = Counts {
            leaves,
            depth,
            numbered,
        };
        Self::from_counted(nodes, aux, counts)
    }

    /// As [`from_parts`](Self::from_parts), of nodes that are counted; the depth is a bound.
    fn from_counted(nodes: Vec<Node>, aux: Vec<StaticBox>, counts: Counts) -> Self {
        Self(Arc::new(Inner {
            nodes,
            aux,
            leaves: counts.leaves,
            depth: counts.depth,
            numbered: counts.numbered,
            hash: OnceLock::new(),
            numbered_at: OnceLock::new(),
        }))
    }

    /// What is counted of a treedef with the same nodes but for this number of leaves.
    fn counts_with(&self, leaves: usize) -> Counts {
        Counts {
            leaves,
            depth: self.0.depth,
            numbered: self.0.numbered,
        }
    }

    /// A bound of the depth, in nodes.
    pub(crate) fn depth(&self) -> usize {
        self.0.depth
    }

    /// The path of a node.
    pub(crate) fn path_of(&self, target: usize) -> KeyPath {
        path_of(&self.0, target)
    }

    /// The treedef in which the places for which `keep` is false are absent; it is called for each place in
    /// order, with whether there is a leaf now.
    pub(crate) fn with_presence(&self, mut keep: impl FnMut(bool) -> bool) -> Self {
        let mut nodes = self.0.nodes.clone();
        let mut leaves = 0;
        for node in nodes.iter_mut().filter(|node| node.is_place()) {
            let present = node.shape.kind == NodeKind::Leaf;
            let kept = keep(present);
            leaves += usize::from(kept);
            match kept {
                true if present => {}
                true => node.shape = &shape::LEAF,
                false => node.shape = &shape::ABSENT,
            }
        }
        Self::from_counted(nodes, self.0.aux.clone(), self.counts_with(leaves))
    }

    /// The treedefs of `N` parts: the leaf at each position is present in the part that `assigned` tells.
    pub(crate) fn split<const N: usize>(&self, assigned: &[u32]) -> [Self; N] {
        std::array::from_fn(|part| {
            let mut leaves = 0;
            let mut assigned = assigned.iter();
            let nodes = self.0.nodes.iter().map(|node| {
                if node.shape.kind != NodeKind::Leaf {
                    return *node;
                }
                if assigned.next().is_some_and(|&owner| owner as usize == part) {
                    leaves += 1;
                    return *node;
                }
                Node {
                    shape: &shape::ABSENT,
                    ..*node
                }
            });
            let nodes = nodes.collect();
            Self::from_counted(nodes, self.0.aux.clone(), self.counts_with(leaves))
        })
    }

    /// Whether an alias may lead to a node that it is in, or to one that comes later: only references and weak edges
    /// make that possible.
    pub(crate) fn leads_back(&self) -> bool {
        let mut kinds = self.0.nodes.iter().map(|node| node.shape.kind);
        kinds.any(|kind| matches!(kind, NodeKind::Reference | NodeKind::Weak))
    }

    /// Whether any place is absent.
    pub(crate) fn has_absent(&self) -> bool {
        self.0
            .nodes
            .iter()
            .any(|node| node.shape.kind == NodeKind::Absent)
    }

    /// Writes the tree, with `leaf` for each leaf.
    pub(crate) fn write_with<W: fmt::Write>(
        &self,
        f: &mut W,
        notation: Notation,
        mut leaf: impl FnMut(&mut W) -> fmt::Result,
    ) -> fmt::Result {
        write_tree(&self.0, f, notation, &mut leaf)
    }
}

impl Inner {
    /// The positions of the nodes that aliases may refer to, in the order of their numbers.
    pub(crate) fn numbered_nodes(&self) -> &[usize] {
        if self.numbered == 0 {
            return &[];
        }
        self.numbered_at.get_or_init(|| {
            let nodes = self.nodes.iter().enumerate();
            let numbered = nodes.filter(|(_, node)| node.shape.kind.is_numbered());
            numbered.map(|(at, _)| at).collect()
        })
    }

    /// The static values of a node.
    pub(crate) fn aux_of(&self, node: usize) -> &[StaticBox] {
        let start = self.nodes[node].aux as usize;
        let end = self
            .nodes
            .get(node + 1)
            .map_or(self.aux.len(), |next| next.aux as usize);
        &self.aux[start..end]
    }
}

impl Node {
    /// The number of the node that an alias leads to; none if it leads to nothing, or is not an alias.
    pub(crate) fn target(&self) -> Option<usize> {
        (self.shape.kind == NodeKind::Alias && self.target != NOTHING)
            .then_some(self.target as usize)
    }

    pub(crate) fn is_place(&self) -> bool {
        matches!(self.shape.kind, NodeKind::Leaf | NodeKind::Absent)
    }
}

impl KeyPath {
    fn extend_by(&mut self, key: Option<Key>) {
        if let Some(key) = key {
            self.push(key);
        }
    }
}

fn hash_parts(nodes: &[Node], aux: &[StaticBox]) -> u64 {
    // The multiply-rotate hash of Firefox: two instructions a node, and quality enough for a table.
    const FACTOR: u64 = 0x517c_c1b7_2722_0a95;
    let mut hash = nodes.len() as u64;
    let mut mix = |word: u64| hash = (hash.rotate_left(5) ^ word).wrapping_mul(FACTOR);
    for node in nodes {
        let shape = node.shape;
        mix((u64::from(node.arity ^ node.target) << 32) | shape.kind as u64);
        if matches!(shape.kind, NodeKind::Struct | NodeKind::TupleStruct) {
            let byte = |byte: Option<&u8>| u64::from(byte.copied().unwrap_or(0));
            let name = shape.name.as_bytes();
            mix(name.len() as u64 ^ (byte(name.first()) << 32) ^ (byte(name.last()) << 40));
        }
    }
    for value in aux {
        let mut hasher = DefaultHasher::new();
        value.hash(&mut hasher);
        mix(hasher.finish());
    }
    hash
}

impl PartialEq for TreeDef {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || (same_nodes(&self.0.nodes, &other.0.nodes) && self.0.aux == other.0.aux)
    }
}

/// Whether nodes are the same but for their static values.
pub(crate) fn same_nodes(left: &[Node], right: &[Node]) -> bool {
    let mut pairs = left.iter().zip(right);
    left.len() == right.len()
        && pairs.all(|(a, b)| a.arity == b.arity && a.target == b.target && a.shape == b.shape)
}
impl Eq for TreeDef {}
impl Hash for TreeDef {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(
            *self
                .0
                .hash
                .get_or_init(|| hash_parts(&self.0.nodes, &self.0.aux)),
        );
    }
}
impl fmt::Display for TreeDef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PyTreeDef(")?;
        self.write_with(f, Notation::Structure, |f| f.write_str("*"))?;
        f.write_str(")")
    }
}
impl fmt::Debug for TreeDef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
