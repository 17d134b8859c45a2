//! Unflattening: a treedef and leaves become a value again.

use std::any::{Any, TypeId};
use std::cell::OnceCell;
use std::sync::{Arc, OnceLock};

use crate::error::{LeafMismatch, TreeError};
use crate::leaf::{AnyLeaf, Leaf, short_name};
use crate::pytree::Pytree;
use crate::reference::{AnyCell, AnyReference, Cell, Ref, References, Staged, WeakRef};
use crate::shape::{self, NodeKind, NodeShape};
use crate::shared::{Shared, Weak};
use crate::statics::{StaticBox, StaticData, StaticValue};
use crate::treedef::TreeDef;

/// Where the leaves of an unflattening come from.
trait LeafSource {
    /// Moves the next leaf into `slot`, an `Option` of the type wanted, or tells the type it has.
    fn next_leaf(&mut self, slot: &mut dyn Any) -> Result<(), &'static str>;

    /// The type of the next leaf, by identity and name; the leaf is dropped.
    fn next_type(&mut self) -> Option<(TypeId, &'static str)>;
}

impl<L: Leaf + Clone, I: Iterator<Item = L>> LeafSource for I {
    fn next_leaf(&mut self, slot: &mut dyn Any) -> Result<(), &'static str> {
        let Some(leaf) = self.next() else {
            return Err("nothing");
        };
        if let Some(slot) = slot.downcast_mut::<Option<L>>() {
            *slot = Some(leaf);
            return Ok(());
        }
        if let Some(slot) = slot.downcast_mut::<Option<AnyLeaf>>() {
            *slot = Some(AnyLeaf::new(leaf));
            return Ok(());
        }
        // The leaf may be one of any type that holds the type wanted.
        Box::new(leaf)
            .move_into(slot)
            .map_err(|leaf| leaf.type_name())
    }

    fn next_type(&mut self) -> Option<(TypeId, &'static str)> {
        self.next()
            .map(|leaf| (leaf.as_any().type_id(), leaf.type_name()))
    }
}

/// Reads a treedef in preorder while a value is built from it.
///
/// Each node calls [`enter`](Self::enter), then [`aux`](Self::aux) for its static values in order, then
/// builds its children; a leaf calls [`leaf`](Self::leaf).
pub struct Unflattener<'a> {
    treedef: &'a TreeDef,
    leaves: &'a mut dyn LeafSource,
    node: usize,
    aux: usize,
    /// The nodes that aliases refer to, by their numbers.
    numbered: Vec<Option<Numbered>>,
    /// The number of the next one that begins.
    next_number: usize,
    /// Whether an alias may lead to a node that it is in, or to one that comes later.
    leads_back: bool,
    /// How many shared nodes and references there are in each other at most in the one that is built now, those that
    /// aliases refer to among them.
    links: usize,
    /// The places of all nodes that aliases refer to, once someone asks for one that may come later.
    places: OnceCell<Vec<usize>>,
    /// The references that were built, or put in the place of those of the treedef.
    references: References,
    /// The references to use instead of new ones, by their positions among those of the treedef.
    used: Option<(&'a References, Contents<'a>)>,
    /// The references known from outside.
    known: Option<&'a References>,
    /// What is written to references that are not new, once all is built.
    staged: Vec<Staged>,
    /// For each node that was entered and not left, where its subtree begins and ends.
    open: Vec<(usize, usize)>,
    /// Whether `open` is kept: if someone asks for the nodes, or the treedef is so deep that a typed value of it may
    /// be too deep.
    tracks: bool,
    on_exit: Option<OnExit<'a>>,
}

/// What becomes of the values of references that are used in a value that is put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents<'a> {
    /// They stay, and so do shared nodes: nothing has changed.
    Same,
    /// They stay.
    Kept,
    /// They are replaced by those of the treedef and the leaves.
    Written,
    /// Those of the references for which it is true, by their positions, are replaced.
    WrittenAt(&'a [bool]),
}

impl Contents<'_> {
    fn is_written(self, position: usize) -> bool {
        match self {
            Self::Same | Self::Kept => false,
            Self::Written => true,
            Self::WrittenAt(written) => written.get(position) == Some(&true),
        }
    }
}

/// A node that aliases refer to.
struct Numbered {
    node: Arc<dyn Any + Send + Sync>,
    /// Whether it began; a weak edge may lead to one that comes later.
    began: bool,
    /// How many shared nodes and references there are in each other at most, it and those inside. None yet while it is
    /// built: what leads back to it is not dropped with it.
    links: usize,
}

/// Receives each node and leaf that is built, children first: its place among the nodes, and the value.
pub(crate) type OnExit<'a> = Box<dyn FnMut(usize, &mut dyn Any) + 'a>;

/// The deepest that typed values nest, in nodes; a dynamic tree has no bound.
///
/// To build a struct of six fields, one of 128 bytes and two maps or lists, takes 4.8 KiB of stack a level in a debug
/// build: 1.2 MiB at this depth, of the 2 MiB that a thread has. At twice the depth it runs out of them.
pub(crate) const DEPTH_LIMIT: usize = 256;

/// The deepest that typed values nest through aliases, in nodes: each shared node or reference counts as the depth of
/// the treedef.
///
/// They are built one after the other, but dropped one inside of the other, which takes about 100 bytes of stack a node
/// in a debug build: half of the 2 MiB that a thread has.
const LINKED_DEPTH_LIMIT: usize = 8192;

impl std::fmt::Debug for Unflattener<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unflattener")
            .field("treedef", self.treedef)
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}

impl Unflattener<'_> {
    /// The shape of the next node.
    pub fn peek(&self) -> Option<&'static NodeShape> {
        self.treedef.0.nodes.get(self.node).map(|node| node.shape)
    }

    /// Whether the next node is of the given shape: [`enter`](Self::enter) begins it then.
    #[inline]
    pub fn is_next(&self, shape: &NodeShape) -> bool {
        self.peek().is_some_and(|next| next.becomes(shape))
    }

    /// Begins a node of the given shape and tells the number of its children.
    ///
    /// # Errors
    /// [`TreeError::NodeType`] if the treedef has another node there.
    #[inline]
    pub fn enter(&mut self, shape: &'static NodeShape) -> Result<usize, TreeError> {
        match self.treedef.0.nodes.get(self.node) {
            Some(node) if node.shape.becomes(shape) => {
                if !self.tracks {
                    self.node += 1;
                    return Ok(node.arity as usize);
                }
                while self.open.last().is_some_and(|&(_, end)| end <= self.node) {
                    self.open.pop();
                }
                if self.open.len() >= DEPTH_LIMIT {
                    return Err(self.too_deep(DEPTH_LIMIT));
                }
                self.open.push((self.node, self.node + node.size as usize));
                self.node += 1;
                Ok(node.arity as usize)
            }
            Some(node) => {
                let (expected, found) = shape.told_apart(node.shape);
                Err(self.wrong_type(expected, found))
            }
            None => Err(self.wrong_node(shape.name)),
        }
    }

    /// As [`enter`](Self::enter), for a node with a fixed number of children.
    ///
    /// # Errors
    /// [`TreeError::NodeType`], or [`TreeError::Arity`] if the treedef has another number of children.
    pub fn enter_fixed(
        &mut self,
        shape: &'static NodeShape,
        arity: usize,
    ) -> Result<(), TreeError> {
        let path_node = self.node;
        let found = self.enter(shape)?;
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

    /// Ends a node: called with the built value, which it gives back. By it a node that is made a pytree by hand
    /// can be replaced and changed like a derived one.
    pub fn exit<T: 'static>(&mut self, value: T) -> T {
        let Some(on_exit) = &mut self.on_exit else {
            return value;
        };
        let mut value = value;
        // A node that was made a pytree by hand and does not call this is still open; it is of another type.
        while let Some((start, end)) = self.open.pop() {
            let shape = self.treedef.0.nodes[start].shape;
            let is_struct = matches!(shape.kind, NodeKind::Struct | NodeKind::TupleStruct);
            let fits = !is_struct
                || shape.is_dynamic()
                || (shape.type_name)() == std::any::type_name::<T>();
            if end == self.node && fits {
                on_exit(start, &mut value);
                break;
            }
        }
        value
    }

    /// The error that the next node is not what is to be built; for enums, where no variant fits.
    pub fn wrong_node(&self, expected: &str) -> TreeError {
        let found = match self.peek() {
            None => "nothing".to_owned(),
            Some(shape) => shape.told_apart(&shape::NONE).0,
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

    /// The next static value or key.
    ///
    /// # Errors
    /// [`TreeError::StaticType`] if it is of another type.
    pub fn aux<T: StaticValue>(&mut self) -> Result<T, TreeError> {
        self.aux_with(StaticBox::to_value)
    }

    /// The next static value, of a type that is not a [`StaticValue`].
    ///
    /// # Errors
    /// [`TreeError::StaticType`] if it is of another type.
    pub fn aux_cloned<T: Clone + 'static>(&mut self) -> Result<T, TreeError> {
        self.aux_with(|value| value.downcast_ref::<T>().cloned())
    }

    /// The next static value, as the treedef keeps it.
    pub(crate) fn aux_box(&mut self) -> Result<StaticBox, TreeError> {
        self.aux_with(|value| Some(value.clone()))
    }

    fn aux_with<T>(&mut self, read: impl FnOnce(&StaticBox) -> Option<T>) -> Result<T, TreeError> {
        let stored = self.treedef.0.aux.get(self.aux);
        self.aux += 1;
        stored.and_then(read).ok_or_else(|| {
            let path = self.treedef.path_of(self.node.saturating_sub(1));
            match stored.and_then(StaticBox::downcast_ref) {
                Some(StaticData::Opaque { type_name, text }) => TreeError::OpaqueStatic {
                    path,
                    type_name: type_name.clone(),
                    text: text.clone(),
                },
                _ => TreeError::StaticType {
                    path,
                    expected: std::any::type_name::<T>(),
                },
            }
        })
    }

    /// The next leaf.
    ///
    /// # Errors
    /// [`TreeError::NodeType`] if the treedef has a node there, [`TreeError::LeafTypes`] if the leaf is
    /// of another type.
    pub fn leaf<L: Leaf>(&mut self) -> Result<L, TreeError> {
        match self.treedef.0.nodes.get(self.node) {
            Some(node) if node.shape.kind == NodeKind::Leaf => {}
            _ => return Err(self.wrong_node(&short_name(std::any::type_name::<L>()))),
        }
        let mut slot: Option<L> = None;
        let outcome = self.leaves.next_leaf(&mut slot);
        self.node += 1;
        match (outcome, slot) {
            (Ok(()), Some(mut leaf)) => {
                if let Some(on_exit) = &mut self.on_exit {
                    on_exit(self.node - 1, &mut leaf);
                }
                Ok(leaf)
            }
            (outcome, _) => Err(TreeError::LeafTypes {
                doing: "cannot unflatten",
                mismatches: vec![LeafMismatch {
                    path: self.treedef.path_of(self.node - 1),
                    expected: short_name(std::any::type_name::<L>()),
                    found: short_name(outcome.err().unwrap_or("nothing")),
                }],
            }),
        }
    }

    /// A shared node: built at its first place, found again at later ones.
    pub(crate) fn shared<T: Pytree + Send + Sync>(&mut self) -> Result<Shared<T>, TreeError> {
        if let Some(found) = self.alias()? {
            return Ok(Shared(found));
        }
        self.enter_fixed(&shape::SHARED, 1)?;
        let number = self.next_number;
        if let Some((used, Contents::Same)) = self.used
            && let Some(node) = used.nodes.get(number).cloned()
            && let Ok(node) = node.downcast::<OnceLock<T>>()
        {
            let node = self.begin_numbered(|| node)?;
            T::unflatten(self)?;
            return Ok(Shared(node));
        }
        let links = std::mem::take(&mut self.links);
        if !self.leads_back {
            self.next_number += 1;
            self.numbered.push(None);
            let built = T::unflatten(self)?;
            let built = self.exit(Shared::new(built));
            self.numbered[number] = Some(Numbered {
                node: Arc::clone(&built.0) as Arc<dyn Any + Send + Sync>,
                began: true,
                links: 0,
            });
            self.end_links(number, links);
            return Ok(built);
        }
        let node = self.begin_numbered(|| Arc::new(OnceLock::<T>::new()))?;
        let built = T::unflatten(self)?;
        if node.set(built).is_err() {
            return Err(self.wrong_node("a shared node that is built once"));
        }
        let built = self.exit(Shared(node));
        self.end_numbered(number, &built.0);
        self.end_links(number, links);
        Ok(built)
    }

    /// A reference: built at its first place, found again at later ones.
    pub(crate) fn reference<T: Pytree + Send + Sync>(&mut self) -> Result<Ref<T>, TreeError> {
        if let Some(found) = self.alias()? {
            return Ok(Ref(found));
        }
        let shape = match self.peek() {
            Some(shape) if shape.kind == NodeKind::Reference => shape,
            _ => &shape::REFERENCE,
        };
        self.enter_fixed(shape, 1)?;
        let (position, number) = (self.references.len(), self.next_number);
        let links = std::mem::take(&mut self.links);
        let used = self
            .used
            .and_then(|(used, contents)| Some((used.cells.get(position)?, contents)));
        if let Some((used, contents)) = used {
            let Some(cell) = used.cell::<T>() else {
                return Err(self.wrong_node("a reference of the same type"));
            };
            self.references.cells.push(used.clone());
            let node = self.begin_numbered(|| Arc::clone(&cell))?;
            let value = T::unflatten(self)?;
            if contents.is_written(position) {
                self.staged.push(Staged::new(cell, value));
            }
            let built = self.exit(Ref(node));
            self.end_numbered(number, &built.0);
            self.end_links(number, links);
            return Ok(built);
        }
        let cell = self.begin_numbered(|| Arc::new(Cell::<T>::empty(shape)))?;
        let any: Arc<dyn AnyCell> = Arc::clone(&cell) as Arc<dyn AnyCell>;
        self.references.cells.push(AnyReference(any));
        let value = T::unflatten(self)?;
        cell.fill(value);
        let built = self.exit(Ref(cell));
        self.end_numbered(number, &built.0);
        self.end_links(number, links);
        Ok(built)
    }

    /// A weak edge to a shared node.
    pub(crate) fn weak<T: Pytree + Send + Sync>(&mut self) -> Result<Weak<T>, TreeError> {
        let target = self.weak_target(|_| Arc::new(OnceLock::<T>::new()))?;
        Ok(target.map_or_else(Weak::new, |node| Weak(Arc::downgrade(&node))))
    }

    /// A weak handle of a reference.
    pub(crate) fn weak_reference<T: Pytree + Send + Sync>(
        &mut self,
    ) -> Result<WeakRef<T>, TreeError> {
        let target = self
            .weak_target(|shape| Arc::new(Cell::<T>::empty(shape.unwrap_or(&shape::REFERENCE))))?;
        Ok(target.map_or_else(WeakRef::new, |node| WeakRef(Arc::downgrade(&node))))
    }

    /// What an alias refers to, if the next node is one.
    fn alias<N: Any + Send + Sync>(&mut self) -> Result<Option<Arc<N>>, TreeError> {
        let alias = self.node;
        let Some(node) = self.treedef.0.nodes.get(alias) else {
            return Ok(None);
        };
        let found = match node.shape.kind {
            NodeKind::Alias => {
                let number = node.target();
                let numbered = number.and_then(|number| self.numbered.get(number)?.as_ref());
                if let Some(numbered) = numbered {
                    self.links = self.links.max(numbered.links);
                    let depth = self.treedef.depth().min(DEPTH_LIMIT);
                    if self.links.saturating_mul(depth) > LINKED_DEPTH_LIMIT {
                        return Err(self.too_deep(LINKED_DEPTH_LIMIT));
                    }
                }
                numbered.map(|numbered| Arc::clone(&numbered.node))
            }
            NodeKind::Argument => self
                .known
                .and_then(|known| known.nodes.get(node.target as usize))
                .cloned(),
            _ => return Ok(None),
        };
        self.node += 1;
        match found.and_then(|node| node.downcast().ok()) {
            Some(node) => Ok(Some(node)),
            None => Err(self.wrong_alias::<N>(alias)),
        }
    }

    #[cold]
    fn wrong_alias<N>(&self, node: usize) -> TreeError {
        TreeError::NodeType {
            path: self.treedef.path_of(node),
            expected: format!("`{}`", short_name(std::any::type_name::<N>())),
            found: "an alias of a node of another type, or of one that is not in this tree"
                .to_owned(),
        }
    }

    /// Begins a node that aliases refer to: a new one, or the one that a weak edge before it leads to.
    fn begin_numbered<N: Any + Send + Sync>(
        &mut self,
        new: impl FnOnce() -> Arc<N>,
    ) -> Result<Arc<N>, TreeError> {
        let number = self.next_number;
        self.next_number += 1;
        let node = self.numbered_node(number, new)?;
        if let Some(Some(numbered)) = self.numbered.get_mut(number) {
            numbered.began = true;
        }
        Ok(node)
    }

    /// Ends it: whoever looks at nodes as they are built may have put another in its place.
    fn end_numbered<N: Any + Send + Sync>(&mut self, number: usize, node: &Arc<N>) {
        if let Some(Some(numbered)) = self.numbered.get_mut(number)
            && self.on_exit.is_some()
        {
            numbered.node = Arc::clone(node) as Arc<dyn Any + Send + Sync>;
        }
    }

    /// Ends the count of what is in a node, of which there were `around` beside it so far.
    fn end_links(&mut self, number: usize, around: usize) {
        let links = self.links + 1;
        if let Some(Some(numbered)) = self.numbered.get_mut(number) {
            numbered.links = links;
        }
        self.links = links.max(around);
    }

    /// The node of a number, which is made if it is not there yet.
    fn numbered_node<N: Any + Send + Sync>(
        &mut self,
        number: usize,
        new: impl FnOnce() -> Arc<N>,
    ) -> Result<Arc<N>, TreeError> {
        if self.numbered.len() <= number {
            self.numbered.resize_with(number + 1, || None);
        }
        if let Some(numbered) = &self.numbered[number] {
            let found = Arc::clone(&numbered.node).downcast::<N>();
            return found.map_err(|_| self.wrong_alias::<N>(self.node - 1));
        }
        let node = new();
        self.numbered[number] = Some(Numbered {
            node: Arc::clone(&node) as Arc<dyn Any + Send + Sync>,
            began: false,
            links: 0,
        });
        Ok(node)
    }

    /// What a weak edge leads to, which may come later.
    fn weak_target<N: Any + Send + Sync>(
        &mut self,
        new: impl FnOnce(Option<&'static NodeShape>) -> Arc<N>,
    ) -> Result<Option<Arc<N>>, TreeError> {
        self.enter_fixed(&shape::WEAK, 1)?;
        let is_known = self
            .peek()
            .is_some_and(|shape| shape.kind == NodeKind::Argument);
        if is_known {
            return self.alias();
        }
        self.enter_fixed(&shape::ALIAS, 0)?;
        match self.treedef.0.nodes[self.node - 1].target() {
            Some(number) if number < self.treedef.0.numbered => {
                let shape = self.shape_of_numbered(number);
                let used = self.used_as(number, shape);
                let used = used.and_then(|node| node.downcast().ok());
                self.numbered_node(number, || used.unwrap_or_else(|| new(shape)))
                    .map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Reads a value that is written, once all is built, to one of some references.
    pub(crate) fn stage(
        &mut self,
        references: &References,
        position: usize,
    ) -> Result<(), TreeError> {
        let Some(reference) = references.cells.get(position) else {
            return Err(self.wrong_node("the value of a reference of the argument"));
        };
        let staged = Arc::clone(&reference.0).stage(self)?;
        self.staged.push(staged);
        Ok(())
    }

    /// The shape of the node of a number, also of one that comes later.
    fn shape_of_numbered(&self, number: usize) -> Option<&'static NodeShape> {
        let places = self.places.get_or_init(|| self.treedef.numbered_nodes());
        let node = self.treedef.0.nodes.get(*places.get(number)?)?;
        Some(node.shape)
    }

    /// The node that is used instead of a new one for a number.
    fn used_as(
        &self,
        number: usize,
        shape: Option<&NodeShape>,
    ) -> Option<Arc<dyn Any + Send + Sync>> {
        let (used, contents) = self.used?;
        let is_used = shape?.kind == NodeKind::Reference || contents == Contents::Same;
        used.nodes.get(number).filter(|_| is_used).cloned()
    }

    /// Whether all nodes began that weak edges lead to; then references that are not new are written.
    fn finish(mut self) -> Result<References, TreeError> {
        let missing = self
            .numbered
            .iter()
            .any(|numbered| numbered.as_ref().is_none_or(|numbered| !numbered.began));
        if missing {
            return Err(self.wrong_node("the node that a weak edge leads to"));
        }
        Staged::write_all(std::mem::take(&mut self.staged))?;
        let nodes = self.numbered.into_iter().flatten();
        self.references.nodes = nodes.map(|numbered| numbered.node).collect();
        Ok(self.references)
    }

    /// After a leaf of a wrong type: that one, and those of the rest whose types differ from what the
    /// treedef was made from.
    fn all_mismatches(&mut self, mut mismatches: Vec<LeafMismatch>) -> Vec<LeafMismatch> {
        for node in self.node..self.treedef.num_nodes() {
            let shape = self.treedef.0.nodes[node].shape;
            if shape.kind != NodeKind::Leaf {
                continue;
            }
            let Some((found, name)) = self.leaves.next_type() else {
                break;
            };
            let expected = (shape.identity)();
            // A leaf that was absent for a while no longer knows its type.
            if expected != found && expected != TypeId::of::<()>() {
                mismatches.push(LeafMismatch {
                    path: self.treedef.path_of(node),
                    expected: short_name((shape.type_name)()),
                    found: short_name(name),
                });
            }
        }
        mismatches
    }

    /// The whole subtree that comes next, as a treedef with its leaves.
    pub(crate) fn subtree<L: Leaf>(&mut self) -> Result<(TreeDef, Vec<L>), TreeError> {
        let start = self.node;
        let subtree = self.treedef.subtree(start);
        let end = start + subtree.num_nodes();
        let mut leaves = Vec::with_capacity(subtree.num_leaves());
        while self.node < end {
            if self.treedef.0.nodes[self.node].shape.kind == NodeKind::Leaf {
                leaves.push(self.leaf()?);
            } else {
                self.node += 1;
            }
        }
        self.aux += subtree.0.aux.len();
        // Aliases outside of a dynamic tree don't refer to what is in it, but its nodes are counted.
        for _ in 0..subtree.0.numbered {
            self.begin_numbered(|| Arc::new(()))?;
        }
        Ok((subtree, leaves))
    }
}

/// Builds a `T` from a treedef and leaves of one type.
///
/// # Errors
/// If there are too few or too many leaves, if the treedef is of another type, or a leaf is.
pub(crate) fn unflatten<T: Pytree, L: Leaf + Clone>(
    treedef: &TreeDef,
    leaves: Vec<L>,
) -> Result<T, TreeError> {
    check_count(treedef, leaves.len())?;
    unflatten_unchecked(treedef, leaves.into_iter())
}

/// As [`unflatten`], from as many leaves as the treedef has.
pub(crate) fn unflatten_unchecked<T: Pytree, L: Leaf + Clone>(
    treedef: &TreeDef,
    leaves: impl Iterator<Item = L>,
) -> Result<T, TreeError> {
    unflatten_with(treedef, leaves, None)
}

/// As [`unflatten_unchecked`], with `on_exit` called for each node that is built.
pub(crate) fn unflatten_with<'a, T: Pytree, L: Leaf + Clone>(
    treedef: &'a TreeDef,
    leaves: impl Iterator<Item = L> + 'a,
    on_exit: Option<OnExit<'a>>,
) -> Result<T, TreeError> {
    let outside = Outside {
        on_exit,
        ..Outside::default()
    };
    build(treedef, leaves, outside, T::unflatten).map(|(built, _)| built)
}

/// What there is outside of a value that is built.
#[derive(Default)]
pub(crate) struct Outside<'a> {
    /// The references to use instead of new ones, by their positions among those of the treedef.
    pub(crate) used: Option<(&'a References, Contents<'a>)>,
    /// The references that the treedef takes for known.
    pub(crate) known: Option<&'a References>,
    pub(crate) on_exit: Option<OnExit<'a>>,
}

/// Builds a value from a treedef and as many leaves as it has: the value, and its references.
pub(crate) fn build<'a, T, L: Leaf + Clone>(
    treedef: &'a TreeDef,
    mut leaves: impl Iterator<Item = L> + 'a,
    outside: Outside<'a>,
    unflatten: impl FnOnce(&mut Unflattener<'_>) -> Result<T, TreeError>,
) -> Result<(T, References), TreeError> {
    let mut source = Unflattener {
        treedef,
        leaves: &mut leaves,
        node: 0,
        aux: 0,
        numbered: Vec::new(),
        next_number: 0,
        leads_back: treedef.0.numbered > 0 && treedef.leads_back(),
        links: 0,
        places: OnceCell::new(),
        references: References::default(),
        used: outside.used,
        known: outside.known,
        staged: Vec::new(),
        open: Vec::new(),
        tracks: outside.on_exit.is_some() || treedef.depth() > DEPTH_LIMIT,
        on_exit: outside.on_exit,
    };
    let built = match unflatten(&mut source) {
        Ok(built) => built,
        Err(TreeError::LeafTypes { doing, mismatches }) => {
            return Err(TreeError::LeafTypes {
                doing,
                mismatches: source.all_mismatches(mismatches),
            });
        }
        Err(error) => return Err(error),
    };
    if source.node != treedef.num_nodes() {
        return Err(source.wrong_node("nothing more"));
    }
    Ok((built, source.finish()?))
}

pub(crate) fn check_count(treedef: &TreeDef, found: usize) -> Result<(), TreeError> {
    let expected = treedef.num_leaves();
    if found == expected {
        return Ok(());
    }
    let mut leaves =
        (0..treedef.num_nodes()).filter(|&node| treedef.0.nodes[node].shape.kind == NodeKind::Leaf);
    let first_missing = leaves.nth(found).map(|node| treedef.path_of(node));
    Err(TreeError::LeafCount {
        doing: "cannot unflatten",
        expected,
        found,
        first_missing,
    })
}
