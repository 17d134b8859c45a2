//! Views of the nodes of a treedef, and a cursor that reads the nodes in preorder.

use std::fmt;
use std::sync::Arc;

use super::keys::key_below;
use super::node::{NOTHING, Node};
use super::structure::{Inner, TreeDef};
use crate::base::path::{KeyPath, PathKey};
use crate::node::insertion::InsertionOrder;
use crate::node::shape::{self, DynamicShape, NodeKind, NodeShape, Shape};
use crate::node::statics::{StaticBox, StaticRef};

/// A node of a treedef.
#[derive(Clone, Copy)]
pub struct NodeView<'a> {
    treedef: &'a TreeDef,
    pub(super) node: &'a Node,
    position: usize,
}

/// The node that [`TreeDef::view`] returns if the treedef has no nodes.
static NO_NODE: Node = Node {
    shape: &shape::NONE,
    arity: 0,
    size: 0,
    aux: 0,
    target: 0,
};

impl TreeDef {
    /// Returns the nodes in preorder, including leaves.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::tree;
    /// let treedef = tree!({"a": (1, 2), "b": None}).treedef().clone();
    /// let names: Vec<&str> = treedef.nodes().map(|node| node.name()).collect();
    /// assert_eq!(names, ["dict", "tuple", "leaf", "leaf", "None"]);
    /// ```
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = NodeView<'_>> {
        self.nodes_in(0..self.num_nodes())
    }

    /// Returns the nodes in a range of positions, in preorder.
    pub(crate) fn nodes_in(
        &self,
        positions: std::ops::Range<usize>,
    ) -> impl ExactSizeIterator<Item = NodeView<'_>> + Clone {
        let first = positions.start;
        let nodes = self.0.nodes[positions].iter().enumerate();
        nodes.map(move |(position, node)| NodeView {
            treedef: self,
            node,
            position: first + position,
        })
    }

    /// Returns the node at a position in preorder.
    #[inline]
    pub(crate) fn node(&self, position: usize) -> Option<NodeView<'_>> {
        self.0.nodes.get(position).map(|node| NodeView {
            treedef: self,
            node,
            position,
        })
    }

    /// Returns the node at a position, which must exist. For a treedef without nodes, returns a `None` node as the
    /// root.
    #[inline]
    pub(crate) fn view(&self, position: usize) -> NodeView<'_> {
        self.node(position).unwrap_or(NodeView {
            treedef: self,
            node: &NO_NODE,
            position,
        })
    }

    /// Returns the number of all static values and keys.
    pub(crate) fn num_statics(&self) -> usize {
        self.0.aux.len()
    }

    /// Returns whether two treedefs have the same static values and keys.
    pub(crate) fn has_statics_of(&self, other: &Self) -> bool {
        self.0.aux == other.0.aux
    }

    /// Returns the static value or key at a position among all static values and keys.
    #[inline]
    pub(crate) fn static_value(&self, position: usize) -> Option<&StaticBox> {
        self.0.aux.get(position)
    }

    /// Returns the root.
    pub(crate) fn root(&self) -> NodeView<'_> {
        self.view(0)
    }

    /// Returns the number of leaves before each node, followed by the number of all leaves.
    pub(crate) fn leaves_before(&self) -> Vec<usize> {
        let mut before = Vec::with_capacity(self.num_nodes() + 1);
        let mut leaves = 0;
        before.push(0);
        for node in self.nodes() {
            leaves += usize::from(node.kind() == NodeKind::Leaf);
            before.push(leaves);
        }
        before
    }
}

/// A position in a treedef that is read in preorder: the next node and the next static value.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'t> {
    treedef: &'t Inner,
    nodes: &'t [Node],
    node: usize,
    aux: usize,
}

impl<'t> Cursor<'t> {
    /// Creates a cursor at the beginning of a treedef.
    #[inline]
    pub(crate) fn new(treedef: &'t TreeDef) -> Self {
        Self {
            treedef: &treedef.0,
            nodes: &treedef.0.nodes,
            node: 0,
            aux: 0,
        }
    }

    /// Returns the position of the next node.
    pub(crate) fn position(self) -> usize {
        self.node
    }

    /// Returns a cursor at the same position in another treedef, or `None` if the treedefs differ before this position.
    pub(crate) fn in_another(self, other: &'t TreeDef) -> Option<Self> {
        let (treedef, other) = (self.treedef, &*other.0);
        let nodes = other.nodes.get(..self.node)?;
        let aux = other.aux.get(..self.aux)?;
        let same_node = |(a, b): (&Node, &Node)| {
            let (of_a, of_b) = (treedef.shape_of(a), other.shape_of(b));
            a.arity == b.arity && of_a == of_b && (of_a.is_dynamic() || a.target == b.target)
        };
        let is_same =
            self.nodes.iter().zip(nodes).all(same_node) && treedef.aux[..self.aux] == *aux;
        is_same.then_some(Self {
            treedef: other,
            nodes: &other.nodes,
            ..self
        })
    }

    /// Returns whether the cursor has passed all nodes and all static values.
    #[inline]
    pub(crate) fn is_at_end(self) -> bool {
        self.node == self.nodes.len() && self.aux == self.treedef.aux.len()
    }

    /// Advances past the next node if it has the given shape and number of children. Returns whether the cursor
    /// advanced.
    #[inline]
    pub(crate) fn pass_node(&mut self, shape: &'static NodeShape, arity: usize) -> bool {
        let Some(node) = self.nodes.get(self.node) else {
            return false;
        };
        let is_next = node.arity as usize == arity
            && (std::ptr::eq(node.shape, shape) || self.has_equal_shape(node, shape));
        self.node += usize::from(is_next);
        is_next
    }

    /// Compares the shapes by their descriptions, because equal constants may have different addresses.
    #[cold]
    #[inline(never)]
    fn has_equal_shape(self, node: &Node, shape: &'static NodeShape) -> bool {
        self.treedef.shape_of(node) == Shape::Static(shape)
    }

    /// Advances past the next `count` siblings, which have equal sizes.
    #[inline]
    pub(crate) fn pass_siblings(&mut self, count: usize) {
        let next = self.nodes.get(self.node);
        self.node += next.map_or(0, |node| count * node.size as usize);
    }

    /// Advances past the next node if it is a leaf of any type. Returns whether the cursor advanced.
    #[inline]
    pub(crate) fn pass_leaf(&mut self) -> bool {
        let next = self.nodes.get(self.node);
        let is_next = next.is_some_and(|node| node.shape.kind == NodeKind::Leaf);
        self.node += usize::from(is_next);
        is_next
    }

    /// Advances past the next node if it has the given number of children and the given shape, which was created at run
    /// time. Returns whether the cursor advanced.
    pub(crate) fn pass_dynamic(&mut self, shape: &Arc<DynamicShape>, arity: usize) -> bool {
        let next = self.nodes.get(self.node);
        let has_shape = |node: &Node| self.treedef.shape_of(node) == Shape::Dynamic(shape);
        let is_next = next.is_some_and(|node| node.arity as usize == arity && has_shape(node));
        self.node += usize::from(is_next);
        is_next
    }

    /// Advances past the next node if it is an alias of node `number` or, if `number` is `None`, an alias without a
    /// target. Returns whether the cursor advanced.
    #[inline]
    pub(crate) fn pass_alias(&mut self, number: Option<usize>) -> bool {
        let mut after = *self;
        let is_next = after.pass_node(&shape::ALIAS, 0) && after.passed_target() == number;
        if is_next {
            *self = after;
        }
        is_next
    }

    /// Advances past the next node if it is a leaf that the values of the last `splits` splits already lacked. Returns
    /// whether the cursor advanced.
    pub(crate) fn pass_absent(&mut self, splits: u32) -> bool {
        let next = self.nodes.get(self.node);
        let is_next =
            next.is_some_and(|node| node.shape.kind == NodeKind::Absent && node.target == splits);
        self.node += usize::from(is_next);
        is_next
    }

    /// Returns the target of the alias that the cursor has just passed, as an index among the shared nodes and
    /// references, or `None` if the alias has no target.
    #[inline]
    pub(crate) fn passed_target(self) -> Option<usize> {
        self.nodes.get(self.node.checked_sub(1)?)?.target()
    }

    /// Advances past the next static value or key if it equals `value`. Returns whether the cursor advanced.
    #[inline]
    pub(crate) fn pass_static(&mut self, value: &StaticRef<'_>) -> bool {
        let next = self.treedef.aux.get(self.aux);
        let is_next = next.is_some_and(|stored| *value == *stored);
        self.aux += usize::from(is_next);
        is_next
    }
}

impl<'a> NodeView<'a> {
    /// Returns the family of the node.
    #[inline]
    pub fn kind(&self) -> NodeKind {
        self.node.shape.kind
    }

    /// Returns the displayed name, such as `Linear` or `list`.
    pub fn name(&self) -> &'a str {
        self.shape().name()
    }

    /// Returns the shape of the node: its description without children and static values.
    #[inline]
    pub fn shape(&self) -> Shape<'a> {
        self.treedef.0.shape_of(self.node)
    }

    /// Returns whether the node has exactly this constant as its shape, and `arity` children.
    #[inline]
    pub(crate) fn is(&self, shape: &'static NodeShape, arity: usize) -> bool {
        std::ptr::eq(self.node.shape, shape) && self.num_children() == arity
    }

    /// Returns whether a value with the shape `built` can be built from the node.
    #[inline]
    pub(crate) fn becomes(&self, built: &'static NodeShape) -> bool {
        std::ptr::eq(self.node.shape, built) || self.shape().becomes(built)
    }

    /// Returns whether the node is a module: a node whose fields have kinds. A module that contains neither leaves nor
    /// modules cannot be distinguished from a plain struct.
    pub fn is_module(&self) -> bool {
        self.shape().fields().any(|(_, kind)| kind.is_some())
    }

    /// Returns the number of children.
    #[inline]
    pub fn num_children(&self) -> usize {
        self.node.arity as usize
    }

    /// Returns the number of leaves at and below this node. The time is linear in the number of nodes of the subtree.
    pub fn num_leaves(&self) -> usize {
        let below = self.below();
        below.filter(|node| node.kind() == NodeKind::Leaf).count()
    }

    /// Returns the keys of the children, in order. The child of a transparent node, such as `Some`, has no key.
    pub fn keys(&self) -> impl Iterator<Item = Option<PathKey>> + use<'a> {
        let node = *self;
        (0..self.num_children()).map(move |position| node.key(position))
    }

    /// Returns the positions of the children in insertion order, which differs from the order of the children only in a
    /// dictionary.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::tree;
    /// let tree = tree!({"b": 1, "c": 2, "a": 3});
    /// let root = tree.root().root();
    /// let keys: Vec<String> = root.keys().flatten().map(|key| key.to_string()).collect();
    /// assert_eq!(keys, ["['a']", "['b']", "['c']"]);
    /// assert_eq!(root.insertion_order(), [1, 2, 0]);
    /// ```
    pub fn insertion_order(&self) -> Vec<usize> {
        let positions = (0..self.num_children()).collect();
        if self.kind() != NodeKind::Dict {
            return positions;
        }
        let order: Option<InsertionOrder> = self.aux().last().and_then(StaticBox::to_value);
        order.unwrap_or_default().restore(positions)
    }

    /// Returns the static values with the names of their fields, in order. See [`keys`](Self::keys) for the keys of a
    /// map.
    pub fn statics(&self) -> impl Iterator<Item = (&'a str, StaticRef<'a>)> + use<'a> {
        let names = self.shape().static_names();
        // A node without static fields may be a map, whose static values are its keys.
        let values = if names.len() == 0 { &[] } else { self.aux() };
        names.zip(values.iter().map(StaticBox::as_static_ref))
    }

    /// Returns the static values with the keys of their fields, in order.
    pub(crate) fn keyed_statics(&self) -> impl Iterator<Item = (PathKey, StaticRef<'a>)> + use<'a> {
        let shape = self.shape();
        let statics = self.statics().enumerate();
        statics.filter_map(move |(position, (_, value))| Some((shape.static_key(position)?, value)))
    }

    /// Returns the path of the node.
    pub fn path(&self) -> KeyPath {
        self.treedef.path_of(self.position)
    }

    /// Returns the subtree as a separate treedef.
    pub fn to_treedef(&self) -> TreeDef {
        self.treedef.subtree(self.position)
    }

    /// Returns the position of the node in preorder.
    #[inline]
    pub(crate) fn position(&self) -> usize {
        self.position
    }

    /// Returns the number of nodes of the subtree, including this node.
    #[inline]
    pub(crate) fn size(&self) -> usize {
        self.node.size as usize
    }

    /// Returns the position after the subtree of this node. If there is a next sibling, the result is the position of
    /// this sibling.
    #[inline]
    pub(crate) fn end(&self) -> usize {
        self.position + self.size()
    }

    /// Returns the nodes of the subtree in preorder, including this node.
    pub(crate) fn below(&self) -> impl ExactSizeIterator<Item = Self> + Clone + use<'a> {
        self.treedef.nodes_in(self.position..self.end())
    }

    /// Returns the children, in order.
    pub(crate) fn children(&self) -> impl ExactSizeIterator<Item = Self> + use<'a> {
        let treedef = self.treedef;
        let mut next = self.position + 1;
        (0..self.num_children()).map(move |_| {
            let child = treedef.view(next);
            next = child.end();
            child
        })
    }

    /// Returns the child at a position among the children.
    pub(crate) fn child(&self, position: usize) -> Option<Self> {
        self.children().nth(position)
    }

    /// Returns the first child with the given key.
    pub(crate) fn child_with_key(&self, key: &PathKey) -> Option<Self> {
        if matches!(self.kind(), NodeKind::List | NodeKind::Tuple) {
            let PathKey::Index(index) = key else {
                return None;
            };
            return self.child(usize::try_from(*index).ok()?);
        }
        let is_meant = |found: Option<PathKey>| found.as_ref() == Some(key);
        let position = self.keys().position(is_meant)?;
        self.child(position)
    }

    /// Returns the key of the child at `position` among the children, or `None` if this node is displayed as its child.
    pub(crate) fn key(&self, position: usize) -> Option<PathKey> {
        key_below(self.shape(), self.aux(), position)
    }

    /// Returns the first node at or below this node that is not transparent (displayed as its only child).
    pub(crate) fn inside(&self) -> Self {
        let is_passed = |node: &Self| node.kind().is_transparent() && node.num_children() == 1;
        let inside = self.below().find(|node| !is_passed(node));
        inside.unwrap_or(*self)
    }

    /// Returns the static values. In a map, the keys come first.
    pub(crate) fn aux(&self) -> &'a [StaticBox] {
        let treedef = &self.treedef.0;
        &treedef.aux[self.node.aux as usize..treedef.aux_start(self.position + 1)]
    }

    /// Returns whether the node is a leaf, present or absent.
    #[inline]
    pub(crate) fn is_place(&self) -> bool {
        self.node.is_place()
    }

    /// Returns the number of an alias's target, or `None` if the alias has no target, or the node is not an alias.
    #[inline]
    pub(crate) fn target(&self) -> Option<usize> {
        self.node.target()
    }

    /// Returns, for an absent leaf, the number of splits of the values that already lacked the leaf. Zero for other nodes.
    #[inline]
    pub(crate) fn splits(&self) -> u32 {
        match self.kind() {
            NodeKind::Absent => self.node.target,
            _ => 0,
        }
    }

    /// If the node refers to a shared node or reference of a function's argument, returns the number that this shared
    /// node or reference has in the argument.
    #[inline]
    pub(crate) fn number_in_argument(&self) -> Option<u32> {
        let is_known = self.kind() == NodeKind::Argument && self.node.target != NOTHING;
        is_known.then_some(self.node.target)
    }

    /// Returns the description of the node for messages.
    pub(crate) fn describe(&self) -> String {
        let shape = self.shape();
        match shape.kind() {
            NodeKind::List | NodeKind::Tuple | NodeKind::Dict | NodeKind::OrderedDict => {
                let name = match (shape.is_builtin(), shape.kind()) {
                    (true, NodeKind::OrderedDict) => "an OrderedDict".to_owned(),
                    (true, _) => format!("a {}", shape.name()),
                    (false, _) => format!("`{}`", shape.name()),
                };
                format!("{name} of {}", self.num_children())
            }
            NodeKind::NamedTuple | NodeKind::Struct => {
                let fields: Vec<&str> = shape.fields().map(|(name, _)| name).collect();
                format!("`{}` of ({})", shape.name(), fields.join(", "))
            }
            NodeKind::Leaf => "a leaf".to_owned(),
            NodeKind::Absent => "an absent leaf".to_owned(),
            NodeKind::Shared => "a shared node".to_owned(),
            NodeKind::Weak => "a weak edge".to_owned(),
            NodeKind::Object if shape.is_default_dict() => "a defaultdict".to_owned(),
            NodeKind::Object => "a trait object".to_owned(),
            NodeKind::Alias => match self.target() {
                Some(number) => format!("alias {number}"),
                None => "an alias without a target".to_owned(),
            },
            NodeKind::Reference => match shape.field_kind(0) {
                Some(kind) => format!("a reference of kind {kind}"),
                None => "a reference".to_owned(),
            },
            NodeKind::Argument => format!("node {} of the argument", self.node.target),
            _ => format!("`{}`", shape.name()),
        }
    }
}

impl fmt::Debug for NodeView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe())
    }
}
