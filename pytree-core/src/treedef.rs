//! Treedefs: the structure of a tree as a value.
//!
//! A treedef is a flat array of nodes in preorder, and an array of their static values and keys. A treedef is compared,
//! hashed and walked without recursion, so its depth is not limited. Other modules read the nodes through a
//! [`NodeView`] and build treedefs with a [`Builder`].
//!
//! Invariants:
//! - The subtree of node `i` is `nodes[i .. i + nodes[i].size]`.
//! - The static values of node `i` are `aux[nodes[i].aux .. nodes[i + 1].aux]`.
//! - Leaves and absent leaves are nodes without children.
//! - A shape that was created at run time is in `dynamic`. Its node refers to a stand-in, which represents all such
//!   shapes of a family.
//! - Shared nodes and references are numbered together, in preorder of their first places. A later place is an alias with the
//!   number, and so is a weak edge. Only a weak edge may refer to a later node or to nothing. So a treedef describes a whole graph, and
//!   two graphs have the same structure exactly if their treedefs are equal.
//! - Names of leaf types and of axes are stored and never compared.

mod aliases;
mod axes;
mod build;
mod common;
mod compare;
mod compose;
mod cursor;
mod display;
mod dynamic;
mod edit;
mod keys;
mod kinds;
mod missing;
mod part;
mod prefix;
mod roles;
#[cfg(feature = "serde")]
mod serde_form;
mod serial;
mod statics;
mod walk;

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock, Weak};

pub(crate) use self::aliases::Aliases;
pub(crate) use self::axes::Stacking;
use pytree_base::bug::expect_at;

use self::build::target_of;
pub(crate) use self::build::{Builder, count};
pub(crate) use self::common::no_common_suffix;
pub(crate) use self::compose::Renumbered;
pub(crate) use self::cursor::Cursor;
pub use self::cursor::NodeView;
pub(crate) use self::display::Notation;
use self::display::write_tree;
use self::dynamic::DynamicShapes;
pub(crate) use self::keys::key_below;
use self::kinds::Kinds;
use self::part::Nodes;
pub(crate) use self::prefix::{Fit, Meeting};
pub use self::roles::LeafRoles;
pub(crate) use self::walk::Step;
use crate::base::path::{KeyPath, PathKey};
use crate::node::shape::{self, DynamicShape, NodeKind, NodeShape, Shape, StandIn};
use crate::node::statics::StaticBox;

/// A node of a treedef.
#[derive(Clone, Copy, Debug)]
struct Node {
    /// The shape, a constant. If the real shape was created at run time, the constant is a stand-in, and the real shape
    /// is in [`Inner::dynamic`].
    shape: &'static NodeShape,
    /// The number of children.
    arity: u32,
    /// The number of nodes of the subtree, including this node.
    size: u32,
    /// The position of the node's first static value in [`Inner::aux`].
    aux: u32,
    /// For an alias, the index of its target among all shared nodes and references in preorder, or [`NOTHING`]. For a
    /// node that refers to a shared node or reference of a function's argument, the index of the target in the
    /// argument. For a node whose shape is a stand-in, the position of the real shape in [`Inner::dynamic`]. For an
    /// absent leaf, the number of splits of the values that already lacked the leaf: see [`TreeDef::as_whole`]. Zero
    /// for all other nodes.
    target: u32,
}

/// Moves a list into an `Arc`. All empty lists share one, without an allocation.
fn shared<T>(list: Vec<T>) -> Arc<[T]> {
    if list.is_empty() {
        return Arc::default();
    }
    list.into()
}

/// The value of [`Node::target`] for an alias without a target.
const NOTHING: u32 = u32::MAX;

#[derive(Debug)]
struct Inner {
    nodes: Nodes,
    aux: Arc<[StaticBox]>,
    /// The shapes created at run time.
    dynamic: Arc<[Arc<DynamicShape>]>,
    leaves: usize,
    /// The number of absent leaves.
    absent: usize,
    /// An upper bound of the depth, in nodes. The bound is often exact.
    depth: usize,
    /// The number of shared nodes and references. Aliases refer to these nodes.
    numbered: usize,
    /// The hash, computed at the first request, because comparisons of treedefs do not need the hash.
    hash: OnceLock<u64>,
    /// The positions of the shared nodes and references, computed at the first request.
    numbered_at: OnceLock<Box<[usize]>>,
    /// The kinds of the leaves, computed at the first request. A part uses the kinds of its whole.
    kinds: OnceLock<Kinds>,
    /// Whether a module declares named axes, computed at the first request.
    has_axes: OnceLock<bool>,
}

/// The numbers of leaves and absent leaves, the depth, and the number of shared nodes and references of a treedef.
#[derive(Clone, Copy, Debug)]
struct Counts {
    leaves: usize,
    absent: usize,
    depth: usize,
    numbered: usize,
}

/// The structure of a tree: nodes, keys and static values, without the leaves.
///
/// Two treedefs are equal if the descriptions of their nodes are equal. A description contains the family of the node,
/// the name of its type (without module path and generic arguments), its fields with their kinds, its keys and its
/// static values. The Rust types are compared only when a value is built, so a stored structure can be used after its
/// type has moved to another module.
///
/// A serialized treedef contains only the text of an opaque static value, such as a function. A static value that was
/// read from such a text differs from every other value. Clones of a treedef share its memory.
///
/// # Examples
/// ```
/// use pytree_core::{tree, Tree};
/// let structure = tree::structure(&vec![(1.0_f32, 2.0_f32)]);
/// assert_eq!(structure.to_string(), "PyTreeDef([(*, *)])");
/// assert_eq!(structure.num_leaves(), 2);
/// ```
#[doc(alias("jax.tree_util.PyTreeDef", "nnx.GraphDef", "optree.PyTreeSpec"))]
#[derive(Clone)]
pub struct TreeDef(Arc<Inner>);

/// A treedef that is not kept alive.
pub(crate) struct WeakTreeDef(Weak<Inner>);

impl WeakTreeDef {
    /// Returns the treedef, if it is still in use.
    pub(crate) fn upgrade(&self) -> Option<TreeDef> {
        self.0.upgrade().map(TreeDef)
    }
}

impl TreeDef {
    /// Returns the treedef of a single leaf.
    pub fn leaf() -> Self {
        let mut builder = Builder::default();
        builder.leaf(&shape::LEAF);
        builder.finish()
    }

    /// Returns a handle that does not keep the treedef alive.
    pub(crate) fn downgrade(&self) -> WeakTreeDef {
        WeakTreeDef(Arc::downgrade(&self.0))
    }

    /// Returns the number of leaves.
    #[inline]
    pub fn num_leaves(&self) -> usize {
        self.0.leaves
    }

    /// Returns the number of nodes, including leaves.
    #[inline]
    pub fn num_nodes(&self) -> usize {
        self.0.nodes.len()
    }

    /// Returns the family of the root.
    pub fn kind(&self) -> NodeKind {
        self.0
            .nodes
            .first()
            .map_or(NodeKind::Leaf, |root| root.shape.kind)
    }

    /// Returns the treedefs of the root's children.
    pub fn children(&self) -> Vec<Self> {
        let children = self.root().children();
        children.map(|child| child.to_treedef()).collect()
    }

    /// Returns the paths of the leaves, in order.
    pub fn leaf_paths(&self) -> Vec<KeyPath> {
        let mut paths = Vec::with_capacity(self.num_leaves());
        self.walk_places(|place| {
            if place.holds_leaf {
                paths.push(place.path.clone());
            }
        });
        paths
    }

    /// Returns for each leaf, in order, whether there are only tuples above it.
    pub fn is_tuple_member(&self) -> Vec<bool> {
        let mut members = Vec::with_capacity(self.num_leaves());
        // The end of the current outermost subtree whose root is not a tuple.
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

    /// Returns the subtree at a node as a separate treedef. An alias whose target is outside of the subtree loses its
    /// target.
    pub(crate) fn subtree(&self, node: usize) -> Self {
        if node == 0 {
            return self.clone();
        }
        let size = self.0.nodes[node].size as usize;
        let aux_start = self.0.aux_start(node);
        let aux = self.0.aux[aux_start..self.0.aux_start(node + size)].to_vec();
        let nodes = self.0.nodes[node..node + size].iter();
        let mut nodes: Vec<Node> = nodes
            .map(|node| Node {
                aux: node.aux - count(aux_start),
                ..*node
            })
            .collect();
        let mut dynamic = DynamicShapes::default();
        dynamic.adopt(&mut nodes, &self.0);
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
        Self::from_parts(nodes, aux, dynamic.into_table())
    }

    /// Creates a treedef from arrays that satisfy the invariants of the module documentation.
    fn from_parts(nodes: Vec<Node>, aux: Vec<StaticBox>, dynamic: Vec<Arc<DynamicShape>>) -> Self {
        let count = |counts: fn(NodeKind) -> bool| {
            let kinds = nodes.iter().map(|node| node.shape.kind);
            kinds.filter(|&kind| counts(kind)).count()
        };
        let leaves = count(|kind| kind == NodeKind::Leaf);
        let absent = count(|kind| kind == NodeKind::Absent);
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
            absent,
            depth,
            numbered,
        };
        Self::from_counted(nodes.into(), shared(aux), shared(dynamic), counts)
    }

    /// Creates a treedef from nodes and their counts, which include a bound of the depth; see
    /// [`from_parts`](Self::from_parts).
    fn from_counted(
        nodes: Nodes,
        aux: Arc<[StaticBox]>,
        dynamic: Arc<[Arc<DynamicShape>]>,
        counts: Counts,
    ) -> Self {
        Self(Arc::new(Inner {
            nodes,
            aux,
            dynamic,
            leaves: counts.leaves,
            absent: counts.absent,
            depth: counts.depth,
            numbered: counts.numbered,
            hash: OnceLock::new(),
            numbered_at: OnceLock::new(),
            kinds: OnceLock::new(),
            has_axes: OnceLock::new(),
        }))
    }

    /// Returns a copy of this treedef with other nodes and static values. `leaves` is the number of leaves among the
    /// nodes. The copy must have the same depth, the same shapes created at run time, and as many shared nodes and
    /// references.
    fn with_nodes(&self, nodes: Vec<Node>, aux: Arc<[StaticBox]>, leaves: usize) -> Self {
        let counts = Counts {
            leaves,
            absent: self.0.absent,
            depth: self.0.depth,
            numbered: self.0.numbered,
        };
        Self::from_counted(nodes.into(), aux, Arc::clone(&self.0.dynamic), counts)
    }

    /// Returns the number of shared nodes and references. Aliases refer to these nodes.
    #[inline]
    pub(crate) fn num_numbered(&self) -> usize {
        self.0.numbered
    }

    /// Returns an upper bound of the depth, in nodes.
    #[inline]
    pub(crate) fn depth(&self) -> usize {
        self.0.depth
    }

    /// Returns whether an alias may refer to a node that contains it, or to a later node. Only references and weak
    /// edges make this possible.
    pub(crate) fn leads_back(&self) -> bool {
        let mut kinds = self.0.nodes.iter().map(|node| node.shape.kind);
        kinds.any(|kind| matches!(kind, NodeKind::Reference | NodeKind::Weak))
    }

    /// Writes the tree in the given notation. Calls `leaf` to write each leaf.
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
    /// Returns the positions of the shared nodes and references, in the order of their numbers.
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

    /// Returns the shape of the node at a position.
    #[inline]
    fn shape(&self, node: usize) -> Shape<'_> {
        self.shape_of(&self.nodes[node])
    }

    /// Returns the shape of a node of this treedef.
    #[inline]
    fn shape_of(&self, node: &Node) -> Shape<'_> {
        if StandIn::is(node.shape) {
            Shape::Dynamic(expect_at(&self.dynamic, node.target as usize, SHAPES))
        } else {
            Shape::Static(node.shape)
        }
    }

    /// Returns the position of the first static value of a node. For the position after the last node, returns the
    /// number of static values.
    fn aux_start(&self, node: usize) -> usize {
        let node = self.nodes.get(node);
        node.map_or(self.aux.len(), |node| node.aux as usize)
    }

    /// Returns the static values of a node.
    fn aux_of(&self, node: usize) -> &[StaticBox] {
        &self.aux[self.aux_start(node)..self.aux_start(node + 1)]
    }

    /// Returns whether two treedefs have the same nodes, ignoring static values.
    fn has_nodes_of(&self, other: &Self) -> bool {
        let pairs = || self.nodes.iter().zip(other.nodes.iter());
        if self.nodes.len() != other.nodes.len() {
            return false;
        }
        if self.dynamic.is_empty() && other.dynamic.is_empty() {
            return pairs()
                .all(|(a, b)| a.arity == b.arity && a.target == b.target && a.shape == b.shape);
        }
        self.has_shapes_of(other) && pairs().all(|(a, b)| a.arity == b.arity)
    }
}

impl Node {
    /// Returns the number of an alias's target, or `None` if the alias has no target, or if the node is not an alias.
    #[inline]
    fn target(&self) -> Option<usize> {
        (self.shape.kind == NodeKind::Alias && self.target != NOTHING)
            .then_some(self.target as usize)
    }

    /// Returns whether the node is a leaf, present or absent, of the value that was split. A leaf that this value lacked
    /// before is not.
    fn is_place(&self) -> bool {
        match self.shape.kind {
            NodeKind::Leaf => true,
            NodeKind::Absent => self.target == 0,
            _ => false,
        }
    }
}

/// The invariant that a panic message names if the shape of a stand-in is missing.
const SHAPES: &str = "an entry in the table of shapes for each node that refers to this table";

impl KeyPath {
    fn extend_by(&mut self, key: Option<PathKey>) {
        if let Some(key) = key {
            self.push(key);
        }
    }
}

fn hash_parts(treedef: &Inner) -> u64 {
    // The multiply-rotate hash of Firefox, which needs few instructions for each word and is good enough for a hash
    // table.
    const FACTOR: u64 = 0x517c_c1b7_2722_0a95;
    let mut hash = treedef.nodes.len() as u64;
    let mut mix = |word: u64| hash = (hash.rotate_left(5) ^ word).wrapping_mul(FACTOR);
    for node in treedef.nodes.iter() {
        let shape = treedef.shape_of(node);
        let target = if shape.is_dynamic() { 0 } else { node.target };
        mix((u64::from(node.arity ^ target) << 32) | shape.kind() as u64);
        if matches!(shape.kind(), NodeKind::Struct | NodeKind::TupleStruct) {
            let byte = |byte: Option<&u8>| u64::from(byte.copied().unwrap_or(0));
            let name = shape.name().as_bytes();
            mix(name.len() as u64 ^ (byte(name.first()) << 32) ^ (byte(name.last()) << 40));
        }
    }
    for value in treedef.aux.iter() {
        let mut hasher = DefaultHasher::new();
        value.hash(&mut hasher);
        mix(hasher.finish());
    }
    hash
}

impl PartialEq for TreeDef {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || (self.0.has_nodes_of(&other.0) && self.0.aux == other.0.aux)
    }
}
impl Eq for TreeDef {}
impl Hash for TreeDef {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(*self.0.hash.get_or_init(|| hash_parts(&self.0)));
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
