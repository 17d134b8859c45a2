//! The arrays of a treedef, and what it counts and remembers of them.

use std::ops::Deref;
use std::sync::{Arc, OnceLock, Weak};

use pytree_base::bug::{LEAVES, expect_at, expect_next};

use super::node::{Node, SHAPES, shared};
use crate::base::kind::LeafKind;
use crate::base::path::KeyPath;
use crate::node::shape::{self, DynamicShape, NodeKind, Shape, StandIn};
use crate::node::statics::StaticBox;

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) nodes: Nodes,
    pub(super) aux: Arc<[StaticBox]>,
    /// The shapes created at run time.
    pub(super) dynamic: Arc<[Arc<DynamicShape>]>,
    pub(super) counts: Counts,
    /// The hash, computed at the first request, because comparisons of treedefs do not need the hash.
    pub(super) hash: OnceLock<u64>,
    /// The positions of the shared nodes and references, computed at the first request.
    pub(super) numbered_at: OnceLock<Box<[usize]>>,
    /// The kinds of the leaves, computed at the first request. A part uses the kinds of its whole.
    pub(super) kinds: OnceLock<Kinds>,
    /// Whether a module declares named axes, computed at the first request.
    pub(super) has_axes: OnceLock<bool>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) leaves: usize,
    /// The number of absent leaves.
    pub(super) absent: usize,
    /// An upper bound of the depth, in nodes. The bound is often exact.
    pub(super) depth: usize,
    /// The number of shared nodes and references. Aliases refer to these nodes.
    pub(super) numbered: usize,
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
pub struct TreeDef(pub(super) Arc<Inner>);

/// A treedef that is not kept alive.
pub(crate) struct WeakTreeDef(Weak<Inner>);

impl WeakTreeDef {
    /// Returns the treedef, if it is still in use.
    pub(crate) fn upgrade(&self) -> Option<TreeDef> {
        self.0.upgrade().map(TreeDef)
    }
}

impl TreeDef {
    /// Returns a handle that does not keep the treedef alive.
    pub(crate) fn downgrade(&self) -> WeakTreeDef {
        WeakTreeDef(Arc::downgrade(&self.0))
    }

    /// Returns the number of leaves.
    #[inline]
    pub fn num_leaves(&self) -> usize {
        self.0.counts.leaves
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

    /// Creates a treedef from arrays that satisfy the invariants of the module documentation.
    pub(super) fn from_parts(
        nodes: Vec<Node>,
        aux: Vec<StaticBox>,
        dynamic: Vec<Arc<DynamicShape>>,
    ) -> Self {
        let count = |counts: fn(NodeKind) -> bool| {
            let kinds = nodes.iter().map(|node| node.shape.kind);
            kinds.filter(|&kind| counts(kind)).count()
        };
        let mut counts = Counts {
            leaves: count(|kind| kind == NodeKind::Leaf),
            absent: count(|kind| kind == NodeKind::Absent),
            depth: 0,
            numbered: count(NodeKind::is_numbered),
        };
        let mut ends: Vec<usize> = Vec::new();
        for (at, node) in nodes.iter().enumerate() {
            while ends.last().is_some_and(|&end| end <= at) {
                ends.pop();
            }
            if node.arity > 0 {
                ends.push(at + node.size as usize);
                counts.depth = counts.depth.max(ends.len());
            }
        }
        Self::from_counted(nodes.into(), shared(aux), shared(dynamic), counts)
    }

    /// Creates a treedef from nodes and their counts, which include a bound of the depth; see
    /// [`from_parts`](Self::from_parts).
    pub(super) fn from_counted(
        nodes: Nodes,
        aux: Arc<[StaticBox]>,
        dynamic: Arc<[Arc<DynamicShape>]>,
        counts: Counts,
    ) -> Self {
        Self(Arc::new(Inner {
            nodes,
            aux,
            dynamic,
            counts,
            hash: OnceLock::new(),
            numbered_at: OnceLock::new(),
            kinds: OnceLock::new(),
            has_axes: OnceLock::new(),
        }))
    }

    /// Returns a copy of this treedef with other nodes and static values. `leaves` is the number of leaves among the
    /// nodes. The copy must have the same depth, the same shapes created at run time, and as many shared nodes and
    /// references.
    pub(super) fn with_nodes(
        &self,
        nodes: Vec<Node>,
        aux: Arc<[StaticBox]>,
        leaves: usize,
    ) -> Self {
        let counts = Counts {
            leaves,
            ..self.0.counts
        };
        Self::from_counted(nodes.into(), aux, Arc::clone(&self.0.dynamic), counts)
    }

    /// Returns the number of shared nodes and references. Aliases refer to these nodes.
    #[inline]
    pub(crate) fn num_numbered(&self) -> usize {
        self.0.counts.numbered
    }

    /// Returns an upper bound of the depth, in nodes.
    #[inline]
    pub(crate) fn depth(&self) -> usize {
        self.0.counts.depth
    }

    /// Returns whether an alias may refer to a node that contains it, or to a later node. Only references and weak
    /// edges make this possible.
    pub(crate) fn leads_back(&self) -> bool {
        let mut kinds = self.0.nodes.iter().map(|node| node.shape.kind);
        kinds.any(|kind| matches!(kind, NodeKind::Reference | NodeKind::Weak))
    }
}

impl Inner {
    /// Returns the positions of the shared nodes and references, in the order of their numbers.
    pub(super) fn numbered_nodes(&self) -> &[usize] {
        if self.counts.numbered == 0 {
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
    pub(super) fn shape(&self, node: usize) -> Shape<'_> {
        self.shape_of(&self.nodes[node])
    }

    /// Returns the shape of a node of this treedef.
    #[inline]
    pub(super) fn shape_of(&self, node: &Node) -> Shape<'_> {
        if StandIn::is(node.shape) {
            Shape::Dynamic(expect_at(&self.dynamic, node.target as usize, SHAPES))
        } else {
            Shape::Static(node.shape)
        }
    }

    /// Returns the position of the first static value of a node. For the position after the last node, returns the
    /// number of static values.
    pub(super) fn aux_start(&self, node: usize) -> usize {
        let node = self.nodes.get(node);
        node.map_or(self.aux.len(), |node| node.aux as usize)
    }

    /// Returns the static values of a node.
    pub(super) fn aux_of(&self, node: usize) -> &[StaticBox] {
        &self.aux[self.aux_start(node)..self.aux_start(node + 1)]
    }

    /// Returns whether two treedefs have the same nodes, ignoring static values.
    pub(super) fn has_nodes_of(&self, other: &Self) -> bool {
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

/// The nodes of a treedef, in preorder.
#[derive(Debug)]
pub(super) struct Nodes {
    pub(super) computed: OnceLock<Vec<Node>>,
    /// The whole, if the treedef is a part.
    pub(super) part: Option<Presence>,
}

/// Which leaves of a whole are present in a part.
#[derive(Debug)]
pub(super) struct Presence {
    /// A treedef that is not a part.
    pub(super) whole: TreeDef,
    /// For each leaf of the whole, present or absent there, whether the leaf is present in the part.
    pub(super) present: Vec<bool>,
}

impl From<Vec<Node>> for Nodes {
    fn from(nodes: Vec<Node>) -> Self {
        Self {
            computed: OnceLock::from(nodes),
            part: None,
        }
    }
}

impl Deref for Nodes {
    type Target = Vec<Node>;

    #[inline]
    fn deref(&self) -> &Vec<Node> {
        let nodes = || self.part.as_ref().map_or_else(Vec::new, Presence::nodes);
        self.computed.get_or_init(nodes)
    }
}

impl Presence {
    fn nodes(&self) -> Vec<Node> {
        let mut present = self.present.iter();
        let nodes = self.whole.0.nodes.iter().map(|node| {
            if !node.is_place() {
                return *node;
            }
            let shape = match (*expect_next(&mut present, LEAVES), node.shape.kind) {
                (false, _) => &shape::ABSENT,
                // A leaf that was absent in the whole may have any type.
                (true, NodeKind::Absent) => &shape::LEAF,
                (true, _) => node.shape,
            };
            Node { shape, ..*node }
        });
        nodes.collect()
    }
}

/// The kinds of all leaves of a treedef, present or absent.
#[derive(Debug)]
pub(super) struct Kinds {
    /// The kinds that occur. A kind may occur several times in this list.
    pub(super) kinds: Vec<Option<LeafKind>>,
    /// For each leaf, in order, the position of its kind in `kinds`.
    pub(super) of_leaves: Vec<u32>,
}
