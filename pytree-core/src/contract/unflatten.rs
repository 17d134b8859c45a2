//! Unflattening: builds a value from a treedef and leaves.
//!
//! Visiting is object-safe and returns no error. Unflattening is typed and checks everything: it builds a whole value or returns an
//! error, so malformed input is never applied in part.

mod build;
mod links;

use std::any::{Any, TypeId};
use std::sync::Arc;

pub(crate) use self::build::{
    Outside, build, fixed_nodes, unflatten, unflatten_converted, unflatten_unchecked,
    unflatten_with,
};
pub(crate) use self::links::Numbered;
use crate::base::error::{LeafMismatch, TreeError};
use crate::base::text::short_name;
use crate::contract::commit::Staged;
use crate::contract::depth;
use crate::contract::handles::References;
use crate::node::leaf::{AnyLeaf, Conversion, Leaf, Number};
use crate::node::shape::{self, DynamicShape, NodeKind, NodeShape, Shape};
use crate::node::statics::{StaticBox, StaticData, StaticValue};
use crate::treedef::{NodeView, TreeDef};

/// The source of the leaves while a value is unflattened: the iterator of a `Vec` of leaves.
///
/// [`Unflattener::leaf`] takes a leaf of the expected type directly from the iterator. These methods find a leaf of
/// another type, or the leaf inside of an [`AnyLeaf`].
trait LeafSource: Any {
    /// Moves the next leaf, if there is one, into `slot`, an empty `Option` of the expected type. If the leaf has
    /// another type, returns the leaf.
    fn next_leaf(&mut self, slot: &mut dyn Any) -> Option<Box<dyn Leaf>>;

    /// Drops the next leaf and returns the identity and the name of its type.
    fn next_type(&mut self) -> Option<(TypeId, &'static str)>;
}

impl<L: Leaf + Clone> LeafSource for std::vec::IntoIter<L> {
    fn next_leaf(&mut self, slot: &mut dyn Any) -> Option<Box<dyn Leaf>> {
        let leaf = self.next()?;
        if let Some(slot) = slot.downcast_mut::<Option<L>>() {
            *slot = Some(leaf);
            return None;
        }
        if let Some(slot) = slot.downcast_mut::<Option<AnyLeaf>>() {
            *slot = Some(AnyLeaf::new(leaf));
            return None;
        }
        // The leaf may be an `AnyLeaf` that holds the expected type.
        Box::new(leaf).move_into(slot).err()
    }

    fn next_type(&mut self) -> Option<(TypeId, &'static str)> {
        self.next()
            .map(|leaf| (leaf.as_any().type_id(), leaf.type_name()))
    }
}

/// Reads a treedef in preorder while a value is built from it.
///
/// Each node calls [`enter`](Self::enter), then [`aux`](Self::aux) for its static values in order, and then builds its
/// children. A leaf calls [`leaf`](Self::leaf).
pub struct Unflattener<'a> {
    treedef: &'a TreeDef,
    leaves: &'a mut dyn LeafSource,
    node: usize,
    aux: usize,
    /// The shared nodes and references that were built, at the indices that aliases use.
    pub(crate) numbered: Vec<Option<Numbered>>,
    /// The index of the next shared node or reference.
    pub(crate) next_number: usize,
    /// Whether an alias may refer to a node that contains it, or to a later node.
    pub(crate) leads_back: bool,
    /// The length of the longest chain of aliases below the node that is being built. In a chain, each alias is inside
    /// the target of the previous alias.
    pub(crate) links: usize,
    /// The references in the nodes that are already built: new references, and existing references from `used`.
    pub(crate) references: References,
    /// Existing references to use instead of new references, in the order of the references in the treedef.
    pub(crate) used: Option<(&'a References, Contents<'a>)>,
    /// The references and shared nodes of a function's argument. The treedef of the function's result refers to each of
    /// these nodes by index.
    known: Option<&'a References>,
    /// The references that the call has read. The staged values are written only if the contents of these references
    /// have not changed since they were read.
    read: Option<&'a References>,
    /// The values to write to existing references after everything is built.
    pub(crate) staged: Vec<Staged>,
    open: Vec<OpenNode>,
    /// Whether the walk maintains `open`. The walk needs `open` if `on_exit` receives the built nodes, or if the
    /// treedef is so deep that its typed value may exceed the depth limit.
    tracks: bool,
    on_exit: Option<OnExit<'a>>,
    /// Collects the positions of the built nodes that have a fixed number of children. `None` if the caller does not
    /// need them.
    fixed: Option<&'a mut Vec<usize>>,
    numbers: Numbers,
}

/// Whether a leaf that is a number may be converted to another numeric type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Numbers {
    /// Every leaf must have exactly the type that the value needs.
    #[default]
    Exact,
    /// A number is converted if the needed type has an equal value.
    Converted,
}

/// A node that is being built.
#[derive(Clone, Copy, Debug)]
struct OpenNode {
    /// The position of the node in the treedef.
    start: usize,
    /// The position after the subtree of the node.
    end: usize,
    /// The depth of the node, including itself, in eighths of a node; see [`depth::entered`].
    parts: usize,
}

/// Determines which existing references and shared nodes get new values when a value with these nodes is unflattened.
///
/// A reference keeps its identity, and its new value replaces its content. A shared node never changes, so a new node is
/// built for a new value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents<'a> {
    /// No value is new: references keep their contents, and existing shared nodes are reused.
    Same,
    /// All values are new.
    Written,
    /// The value of the reference or shared node with the index `i` in the treedef is new if element `i` of the slice is
    /// true.
    WrittenAt(&'a [bool]),
}

impl Contents<'_> {
    /// Returns whether the value of the reference or shared node `number` is new.
    pub(crate) fn is_written(self, number: usize) -> bool {
        match self {
            Self::Same => false,
            Self::Written => true,
            Self::WrittenAt(written) => written.get(number) == Some(&true),
        }
    }
}

/// A callback for each built node and leaf, children first. The callback receives the position of the node in the
/// treedef, and the built value.
pub(crate) type OnExit<'a> = Box<dyn FnMut(usize, &mut dyn Any) + 'a>;

/// The greatest depth, in nodes, of typed values that are nested through aliases. Each alias counts as many nodes as
/// the treedef is deep.
///
/// The nodes are built one after another, but each node is dropped inside the drop of the previous node. In a debug
/// build a drop needs about 100 bytes of stack for each node, so this limit needs half of a thread's 2 MiB.
const LINKED_DEPTH_LIMIT: usize = 8192;

impl std::fmt::Debug for Unflattener<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unflattener")
            .field("treedef", self.treedef)
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}

impl<'a> Unflattener<'a> {
    /// Returns the shape of the next node.
    pub fn peek(&self) -> Option<Shape<'a>> {
        self.treedef.node(self.node).map(|node| node.shape())
    }

    /// Returns whether [`enter`](Self::enter) would accept the next node for the given shape.
    #[inline]
    pub fn is_next(&self, shape: &'static NodeShape) -> bool {
        let next = self.treedef.node(self.node);
        next.is_some_and(|next| next.becomes(shape))
    }

    /// Begins a node of the given shape and returns the number of its children.
    ///
    /// # Errors
    /// [`TreeError::NodeType`] if the next node of the treedef has another shape.
    pub fn enter(&mut self, shape: &'static NodeShape) -> Result<usize, TreeError> {
        self.enter_as(shape, false)
    }

    /// Begins a node whose shape was created at run time, and returns the number of its children.
    ///
    /// # Errors
    /// [`TreeError::NodeType`] if the next node of the treedef has another shape.
    pub fn enter_dynamic(&mut self, shape: &Arc<DynamicShape>) -> Result<usize, TreeError> {
        let is_next = self.peek() == Some(Shape::Dynamic(shape));
        if !is_next && let Some(found) = self.peek() {
            let (expected, found) = Shape::Dynamic(shape).contrast(found);
            return Err(self.wrong_type(expected, found));
        }
        let node = self.enter_any(&[shape.kind()], shape.name())?;
        Ok(node.num_children())
    }

    /// Begins a node whose shape was created at run time. Returns the shape, which a type that stores its own shape
    /// keeps, and the number of children.
    ///
    /// # Errors
    /// [`TreeError::NodeType`] if the next node of the treedef has the shape of a type.
    pub fn enter_any_dynamic(&mut self) -> Result<(Arc<DynamicShape>, usize), TreeError> {
        let Some(Shape::Dynamic(shape)) = self.peek() else {
            let found = match self.peek() {
                None => "nothing".to_owned(),
                Some(shape) => shape.contrast(Shape::Static(&shape::NONE)).0,
            };
            return Err(self.wrong_type("a shape made at run time".to_owned(), found));
        };
        let shape = Arc::clone(shape);
        let node = self.enter_any(&[shape.kind()], shape.name())?;
        Ok((shape, node.num_children()))
    }

    fn enter_as(&mut self, shape: &'static NodeShape, is_fixed: bool) -> Result<usize, TreeError> {
        match self.treedef.node(self.node) {
            Some(node) if node.becomes(shape) => {
                if self.tracks {
                    self.track(node, is_fixed)?;
                }
                self.node += 1;
                Ok(node.num_children())
            }
            Some(node) => {
                let (expected, found) = Shape::Static(shape).contrast(node.shape());
                Err(self.wrong_type(expected, found))
            }
            None => Err(self.wrong_node(shape.name)),
        }
    }

    /// Records that the next node begins, and checks the depth limit.
    fn track(&mut self, node: NodeView<'_>, is_fixed: bool) -> Result<(), TreeError> {
        if let (Some(fixed), true) = (&mut self.fixed, is_fixed) {
            fixed.push(self.node);
        }
        while self.open.last().is_some_and(|open| open.end <= self.node) {
            self.open.pop();
        }
        let parts = self.open.last().map_or(0, |open| open.parts);
        let parts = depth::entered(parts, self.open.len(), node.kind());
        let parts = parts.map_err(|limit| self.too_deep(limit))?;
        self.open.push(OpenNode {
            start: self.node,
            end: node.end(),
            parts,
        });
        Ok(())
    }

    /// Begins the next node, whose family must be one of `kinds`, and returns the node.
    ///
    /// # Errors
    /// [`TreeError::NodeType`] if the family of the next node is not in `kinds`, or if there is no next node.
    pub(crate) fn enter_any(
        &mut self,
        kinds: &[NodeKind],
        expected: &str,
    ) -> Result<NodeView<'a>, TreeError> {
        let node = self.treedef.node(self.node);
        let Some(node) = node.filter(|node| kinds.contains(&node.kind())) else {
            return Err(self.wrong_node(expected));
        };
        if self.tracks {
            self.track(node, node.kind() == NodeKind::Reference)?;
        }
        self.node += 1;
        Ok(node)
    }

    /// Begins a node of the given shape, which must have `arity` children; see [`enter`](Self::enter).
    ///
    /// # Errors
    /// - [`TreeError::NodeType`] if the next node of the treedef has another shape.
    /// - [`TreeError::Arity`] if the next node has a different number of children.
    #[inline]
    pub fn enter_fixed(
        &mut self,
        shape: &'static NodeShape,
        arity: usize,
    ) -> Result<(), TreeError> {
        let next = self.treedef.node(self.node);
        if !self.tracks && next.is_some_and(|next| next.is(shape, arity)) {
            self.node += 1;
            return Ok(());
        }
        self.enter_other(shape, arity)
    }

    /// Begins a node like [`enter_fixed`](Self::enter_fixed), also if its shape has another address or if the walk
    /// tracks the open nodes.
    #[inline(never)]
    fn enter_other(&mut self, shape: &'static NodeShape, arity: usize) -> Result<(), TreeError> {
        let path_node = self.node;
        let found = self.enter_as(shape, true)?;
        if found == arity {
            return Ok(());
        }
        Err(TreeError::Arity {
            path: self.treedef.path_of(path_node),
            node: shape.name,
            expected: arity,
            found,
        })
    }

    #[cold]
    fn too_deep(&self, limit: usize) -> TreeError {
        TreeError::TooDeep {
            limit,
            path: self.treedef.path_of(self.node),
        }
    }

    /// Ends a node, and returns the value that was built for it. Call this in a handwritten impl of `Pytree`, so that
    /// the node can be replaced and edited like a derived node.
    #[inline]
    pub fn exit<T: 'static>(&mut self, mut value: T) -> T {
        if self.on_exit.is_some() {
            self.report(&mut value, std::any::type_name::<T>());
        }
        value
    }

    /// Calls `on_exit` with a built node.
    #[cold]
    fn report(&mut self, value: &mut dyn Any, type_name: &str) {
        let Some(on_exit) = &mut self.on_exit else {
            return;
        };
        // Skips inner nodes whose handwritten impl of `Pytree` does not call `exit`. Such a node has another type.
        while let Some(OpenNode { start, end, .. }) = self.open.pop() {
            let shape = self.treedef.view(start).shape();
            let is_struct = matches!(shape.kind(), NodeKind::Struct | NodeKind::TupleStruct);
            let fits = !is_struct || shape.is_dynamic() || shape.type_name() == type_name;
            if end == self.node && fits {
                on_exit(start, value);
                break;
            }
        }
    }

    /// Returns the error that the next node is not `expected`, for instance because no variant of an enum matches.
    pub fn wrong_node(&self, expected: &str) -> TreeError {
        let found = match self.peek() {
            None => "nothing".to_owned(),
            Some(shape) => shape.contrast(Shape::Static(&shape::NONE)).0,
        };
        self.wrong_type(format!("`{}`", short_name(expected)), found)
    }

    #[cold]
    fn wrong_type(&self, expected: String, found: String) -> TreeError {
        TreeError::NodeType {
            path: self
                .treedef
                .path_of(self.node.min(self.treedef.num_nodes().saturating_sub(1))),
            expected,
            found,
        }
    }

    /// Returns the next static value or key.
    ///
    /// # Errors
    /// [`TreeError::StaticType`] if the value has another type.
    pub fn aux<T: StaticValue>(&mut self) -> Result<T, TreeError> {
        self.aux_with(StaticBox::to_value)
    }

    /// Returns the next static value. `T`, the type of the value, need not implement [`StaticValue`].
    ///
    /// # Errors
    /// [`TreeError::StaticType`] if the value has another type.
    pub fn aux_cloned<T: Clone + 'static>(&mut self) -> Result<T, TreeError> {
        self.aux_with(|value| value.downcast_ref::<T>().cloned())
    }

    /// Returns the next static value as the treedef stores it.
    pub(crate) fn aux_box(&mut self) -> Result<StaticBox, TreeError> {
        self.aux_with(|value| Some(value.clone()))
    }

    fn aux_with<T>(&mut self, read: impl FnOnce(&StaticBox) -> Option<T>) -> Result<T, TreeError> {
        let stored = self.treedef.static_value(self.aux);
        self.aux += 1;
        let read = stored.and_then(read);
        read.ok_or_else(|| self.wrong_static(stored, std::any::type_name::<T>()))
    }

    #[cold]
    fn wrong_static(&self, stored: Option<&StaticBox>, expected: &'static str) -> TreeError {
        let path = self.treedef.path_of(self.node.saturating_sub(1));
        let data: Option<&StaticData> = stored.and_then(StaticBox::downcast_ref);
        match data.and_then(StaticData::first_opaque) {
            Some((type_name, text)) => TreeError::OpaqueStatic {
                path,
                type_name: type_name.to_owned(),
                text: text.to_owned(),
            },
            None => TreeError::StaticType { path, expected },
        }
    }

    /// Returns the next leaf.
    ///
    /// # Errors
    /// - [`TreeError::NodeType`] if the next node of the treedef is not a leaf.
    /// - [`TreeError::LeafTypes`] if the leaf is not of type `L`.
    #[inline]
    pub fn leaf<L: Leaf>(&mut self) -> Result<L, TreeError> {
        let next = self.treedef.node(self.node);
        let leaves: &mut dyn Any = self.leaves;
        if self.on_exit.is_none()
            && next.is_some_and(|next| next.kind() == NodeKind::Leaf)
            && let Some(leaves) = leaves.downcast_mut::<std::vec::IntoIter<L>>()
            && let Some(leaf) = leaves.next()
        {
            self.node += 1;
            return Ok(leaf);
        }
        self.other_leaf()
    }

    /// Returns the next leaf like [`leaf`](Self::leaf), also if it is in an [`AnyLeaf`] or must be reported.
    #[inline(never)]
    fn other_leaf<L: Leaf>(&mut self) -> Result<L, TreeError> {
        match self.treedef.node(self.node) {
            Some(node) if node.kind() == NodeKind::Leaf => {}
            _ => return Err(self.wrong_node(&short_name(std::any::type_name::<L>()))),
        }
        let mut slot: Option<L> = None;
        let other = self.leaves.next_leaf(&mut slot);
        self.node += 1;
        let Some(mut leaf) = slot else {
            return self.converted(other.as_deref());
        };
        if let Some(on_exit) = &mut self.on_exit {
            on_exit(self.node - 1, &mut leaf);
        }
        Ok(leaf)
    }

    /// Converts `leaf`, whose type is not `L`, to an `L` if conversions are allowed. Otherwise, returns an error.
    #[cold]
    fn converted<L: Leaf>(&mut self, leaf: Option<&dyn Leaf>) -> Result<L, TreeError> {
        let number = leaf.filter(|_| self.numbers == Numbers::Converted);
        let number = number.and_then(Number::of);
        let mut slot: Option<L> = None;
        let found = match (leaf, number) {
            (Some(_), Some(number)) => match number.put(&mut slot) {
                Conversion::Done => number.to_string(),
                Conversion::DoesNotFit => {
                    let expected = short_name(std::any::type_name::<L>());
                    format!("{number}, which {expected} cannot represent exactly")
                }
                Conversion::NotANumber => number.type_name().to_owned(),
            },
            (Some(leaf), None) => short_name(leaf.type_name()),
            (None, _) => "nothing".to_owned(),
        };
        if let Some(mut leaf) = slot {
            if let Some(on_exit) = &mut self.on_exit {
                on_exit(self.node - 1, &mut leaf);
            }
            return Ok(leaf);
        }
        Err(TreeError::LeafTypes {
            doing: "cannot unflatten",
            mismatches: vec![LeafMismatch {
                path: self.treedef.path_of(self.node - 1),
                expected: short_name(std::any::type_name::<L>()),
                found,
            }],
        })
    }

    /// Completes the list of leaves of wrong types. `mismatches` holds the first such leaf. Adds each later leaf whose
    /// type differs from the type in the treedef.
    fn all_mismatches(&mut self, mut mismatches: Vec<LeafMismatch>) -> Vec<LeafMismatch> {
        for node in self.treedef.nodes_in(self.node..self.treedef.num_nodes()) {
            let (NodeKind::Leaf, Shape::Static(shape)) = (node.kind(), node.shape()) else {
                continue;
            };
            let Some((found, name)) = self.leaves.next_type() else {
                break;
            };
            let expected = (shape.identity)();
            // The type of a leaf that was absent earlier is unknown: the shape of the leaf stores `()` instead.
            if expected != found && expected != TypeId::of::<()>() {
                mismatches.push(LeafMismatch {
                    path: node.path(),
                    expected: short_name((shape.type_name)()),
                    found: short_name(name),
                });
            }
        }
        mismatches
    }

    /// Returns the next subtree as a treedef with its leaves.
    pub(crate) fn subtree<L: Leaf>(&mut self) -> Result<(TreeDef, Vec<L>), TreeError> {
        let start = self.node;
        let subtree = self.treedef.subtree(start);
        let end = start + subtree.num_nodes();
        let mut leaves = Vec::with_capacity(subtree.num_leaves());
        while self.node < end {
            if self.treedef.view(self.node).kind() == NodeKind::Leaf {
                leaves.push(self.leaf()?);
            } else {
                self.node += 1;
            }
        }
        self.aux += subtree.num_statics();
        // No alias outside of the subtree refers to its shared nodes, but these nodes still take numbers.
        for _ in 0..subtree.num_numbered() {
            self.begin_numbered(|| Arc::new(()))?;
        }
        Ok((subtree, leaves))
    }
}
