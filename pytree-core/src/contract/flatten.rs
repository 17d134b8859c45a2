//! Flattening: turns a value into a treedef and leaves.
//!
//! A generic function is compiled again in each crate that calls it, for each type of the user. So a generic function only visits
//! its argument, or calls a closure, and then calls functions that are not generic. A closure in a generic function has a type of
//! its own for each of these types, so the callbacks of visitors are functions.

use std::ops::Range;
use std::sync::Arc;

use pytree_base::bug::{LEAVES, expect_next};

use crate::base::error::TreeError;
use crate::base::identity::{IdentityMap, NodeIdentity};
use crate::contract::arena::{Arena, ArenaWriter, Content};
use crate::contract::depth;
use crate::contract::handles::{AnyReference, References};
use crate::contract::obstacle::Obstacle;
use crate::contract::pytree::{Pytree, ReferenceNode, SharedNode, Visit, Visitor, typed};
use crate::node::leaf::{AnyLeaf, Leaf};
use crate::node::shape::{self, DynamicShape, NodeKind, NodeShape};
use crate::node::statics::StaticRef;
use crate::treedef::{Builder, TreeDef};

/// How a traversal treats shared nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Visits a shared node at each of its paths, as tree functions do.
    Duplicate,
    /// Visits a shared node once, as graph functions do. Later occurrences of the node become aliases.
    Preserve,
}

/// The handles that a traversal collects, with the contents of the references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handles {
    /// No handles.
    None,
    /// The handles of the references, which show whether all references were read at one instant.
    References,
    /// The handles of the references and of the shared nodes.
    All,
}

/// A visitor that builds a treedef and passes each leaf to a callback.
pub(crate) struct Flatten<'a, F: FnMut(&'a dyn Leaf) -> Result<(), TreeError>> {
    builder: Builder,
    obstacle: Obstacle,
    on_leaf: F,
    sharing: Sharing,
    seen: IdentityMap,
    /// Stores the contents of references, so that leaves can be borrowed from them. `None` if leaves are borrowed only
    /// from the visited value, which must then have no references.
    writer: Option<ArenaWriter<'a>>,
    /// The handles to collect in `references`.
    collected: Handles,
    references: References,
    /// References and shared nodes that the caller already has. The traversal records only the index of each, and does
    /// not visit it.
    known: Option<&'a References>,
    /// In a tree traversal, the shared nodes whose visit has begun but not ended, each with its depth.
    inside: Vec<(NodeIdentity, usize)>,
    /// For each weak edge, the position of its alias and the identity of its target. A target may be visited after the
    /// edge, so the indices of the targets are looked up at the end of the traversal.
    weak: Vec<(usize, NodeIdentity)>,
    /// The positions of the nodes of dynamic trees, if the caller needs them.
    trees: Option<Vec<Range<usize>>>,
    /// Whether the leaves are not needed, so that the nodes of children with the same structure can be copied.
    repeats: bool,
}

// The callbacks that collect leaves. They are functions and not closures of the callers, because the type of a closure depends on
// all type parameters around it: a visitor would be compiled again for each type that is visited.

/// Returns a callback that collects borrowed leaves.
pub(crate) fn borrowing<'v, 'a>(
    leaves: &'v mut Vec<&'a dyn Leaf>,
) -> impl FnMut(&'a dyn Leaf) -> Result<(), TreeError> + use<'v, 'a> {
    |leaf| {
        leaves.push(leaf);
        Ok(())
    }
}

/// Returns a callback that collects borrowed leaves of type `L`.
pub(crate) fn borrowing_typed<'v, 'a, L: Leaf>(
    leaves: &'v mut Vec<&'a L>,
) -> impl FnMut(&'a dyn Leaf) -> Result<(), TreeError> + use<'v, 'a, L> {
    |leaf| {
        leaves.push(typed(leaf)?);
        Ok(())
    }
}

/// Returns a callback that collects clones of leaves of any types.
pub(crate) fn cloning(leaves: &mut Vec<AnyLeaf>) -> impl FnMut(&dyn Leaf) -> Result<(), TreeError> {
    |leaf| {
        leaves.push(AnyLeaf::from_boxed(leaf.clone_boxed()));
        Ok(())
    }
}

/// Returns a callback that collects what `function` returns for leaves of type `L`.
pub(crate) fn mapping<L: Leaf, U, F: FnMut(&L) -> U>(
    leaves: &mut Vec<U>,
    mut function: F,
) -> impl FnMut(&dyn Leaf) -> Result<(), TreeError> {
    move |leaf| {
        leaves.push(function(typed(leaf)?));
        Ok(())
    }
}

impl<'a> Flatten<'a, fn(&'a dyn Leaf) -> Result<(), TreeError>> {
    /// Creates a visitor that builds a treedef and ignores the leaves.
    pub(crate) fn structure(sharing: Sharing) -> Self {
        Self {
            repeats: true,
            ..Self::new(sharing, |_| Ok(()))
        }
    }
}

impl<'a, F: FnMut(&'a dyn Leaf) -> Result<(), TreeError>> Flatten<'a, F> {
    #[inline]
    pub(crate) fn new(sharing: Sharing, on_leaf: F) -> Self {
        Self {
            builder: Builder::default(),
            obstacle: Obstacle::default(),
            on_leaf,
            sharing,
            seen: IdentityMap::default(),
            writer: None,
            collected: Handles::None,
            references: References::default(),
            known: None,
            inside: Vec::new(),
            weak: Vec::new(),
            trees: None,
            repeats: false,
        }
    }

    /// Stores the contents of references in `arena`, so that their leaves can be borrowed.
    #[inline]
    pub(crate) fn with_arena(mut self, arena: &'a Arena) -> Self {
        self.writer = Some(arena.writer());
        self
    }

    /// Returns whether a node of this kind may begin. It may not after an obstacle, or if it exceeds the greatest depth.
    #[inline]
    fn may_begin(&mut self, kind: NodeKind) -> Visit {
        if self.obstacle.is_met() {
            return self.obstacle.skip();
        }
        match depth::check(self.builder.open_kinds(), kind) {
            Ok(()) => Visit::Descend,
            Err(limit) => self.too_deep(limit),
        }
    }

    /// Ends the walk, because a deeper traversal would overflow the stack.
    #[cold]
    fn too_deep(&mut self, limit: usize) -> Visit {
        let path = self
            .builder
            .path_to(self.builder.num_open().saturating_sub(1));
        self.obstacle.meet(TreeError::TooDeep { limit, path });
        Visit::Skip
    }

    /// Records references and shared nodes of `known` by index, instead of visiting them.
    pub(crate) fn knowing(mut self, known: &'a References) -> Self {
        self.known = Some(known);
        self
    }

    /// Visits a value and returns its treedef.
    ///
    /// # Errors
    /// The obstacle that ends the walk.
    pub(crate) fn run<T: Pytree + ?Sized>(mut self, tree: &'a T) -> Result<TreeDef, TreeError> {
        tree.visit(&mut self);
        self.finish()
    }

    /// Returns the treedef, and the positions in this treedef of the nodes of dynamic trees, in order.
    pub(crate) fn run_with_trees<T: Pytree + ?Sized>(
        mut self,
        value: &'a T,
    ) -> Result<(TreeDef, Vec<Range<usize>>), TreeError> {
        self.trees = Some(Vec::new());
        value.visit(&mut self);
        let trees = self.trees.take().unwrap_or_default();
        Ok((self.finish()?, trees))
    }

    /// Returns the position that the next node will have in the treedef.
    pub(crate) fn position(&self) -> usize {
        self.builder.position()
    }

    /// Collects handles while visiting a value.
    pub(crate) fn collecting(mut self, handles: Handles) -> Self {
        self.collected = handles;
        self
    }

    /// Returns whether the field `known` contains the node with this identity. If so, records the index of the node in
    /// `known`.
    fn is_known(&mut self, identity: NodeIdentity) -> bool {
        let number = self.known.and_then(|known| known.number(identity));
        if let Some(number) = number {
            self.builder.argument(number);
        }
        number.is_some()
    }

    /// Removes the visited references from this visitor and returns them.
    pub(crate) fn take_references(&mut self) -> References {
        std::mem::take(&mut self.references)
    }

    /// Visits a tuple of `arity` members. `visit` receives the position of each member and visits the member.
    pub(crate) fn visit_tuple(&mut self, arity: usize, mut visit: impl FnMut(usize, &mut Self)) {
        if self.enter(&shape::TUPLE, arity) == Visit::Skip {
            return;
        }
        (0..arity).for_each(|position| visit(position, self));
        self.exit();
    }

    /// Visits the content of a reference.
    pub(crate) fn visit_content(&mut self, reference: &AnyReference) {
        match reference.content() {
            Ok(content) => self.keep(content).visit(self),
            Err(error) => self.obstacle.meet(error),
        }
    }

    /// Returns the treedef of the visited nodes.
    ///
    /// # Errors
    /// The obstacle that has ended the walk.
    pub(crate) fn finish(mut self) -> Result<TreeDef, TreeError> {
        self.obstacle.or(|| self.builder.check())??;
        for (alias, target) in self.weak {
            self.builder.set_target(alias, self.seen.get(target));
        }
        Ok(self.builder.finish())
    }
}

impl<'a, F: FnMut(&'a dyn Leaf) -> Result<(), TreeError>> Visitor<'a> for Flatten<'a, F> {
    fn enter(&mut self, shape: &'static NodeShape, arity: usize) -> Visit {
        let visit = self.may_begin(shape.kind);
        if visit == Visit::Descend {
            self.builder.enter(shape, arity);
        }
        visit
    }
    fn enter_dynamic(&mut self, shape: &Arc<DynamicShape>, arity: usize) -> Visit {
        let visit = self.may_begin(shape.kind());
        if visit == Visit::Descend {
            self.builder.enter_dynamic(shape, arity);
        }
        visit
    }
    fn tree(&mut self, treedef: &'a TreeDef, leaves: &mut dyn Iterator<Item = &'a dyn Leaf>) {
        if self.obstacle.is_met() {
            return;
        }
        let begin = self.position();
        self.builder.subtree_with(treedef, || {
            let leaf = expect_next(leaves, LEAVES);
            if !self.obstacle.is_met()
                && let Err(error) = (self.on_leaf)(leaf)
            {
                self.obstacle.meet(error);
            }
            leaf.leaf_shape()
        });
        let end = self.position();
        if let Some(trees) = &mut self.trees {
            trees.push(begin..end);
        }
        self.seen.skip(treedef.num_numbered());
        if self.collected == Handles::All {
            self.references.skip(treedef.num_numbered());
        }
    }
    fn aux(&mut self, value: StaticRef<'a>) {
        if !self.obstacle.is_met() {
            self.builder.aux(value.to_box());
        }
    }
    fn leaf(&mut self, leaf: &'a dyn Leaf) {
        if self.obstacle.is_met() {
            return;
        }
        self.builder.leaf(leaf.leaf_shape());
        if let Err(error) = (self.on_leaf)(leaf) {
            self.obstacle.meet(error);
        }
    }
    fn refuse(&mut self, error: TreeError) {
        self.obstacle.meet(error);
    }
    fn __repeat(&mut self, count: usize) -> bool {
        if self.repeats && !self.obstacle.is_met() {
            self.builder.repeat(count);
        }
        self.repeats
    }
    fn exit(&mut self) {
        if self.obstacle.is_met() {
            return;
        }
        self.builder.exit();
        while let Some((_, depth)) = self.inside.last()
            && *depth >= self.builder.num_open()
        {
            self.inside.pop();
        }
    }
    fn shared(&mut self, identity: NodeIdentity) -> Visit {
        if self.obstacle.is_met() {
            return Visit::Skip;
        }
        if self.sharing == Sharing::Duplicate {
            if let Some((_, depth)) = self.inside.iter().find(|(open, _)| *open == identity) {
                let (path, back) = (self.builder.path(), self.builder.path_to(*depth));
                self.obstacle.meet(TreeError::Cycle { path, back });
                return Visit::Skip;
            }
            self.inside.push((identity, self.builder.num_open()));
            return Visit::Descend;
        }
        match self.seen.insert(identity) {
            Ok(()) => Visit::Descend,
            Err(number) => {
                self.builder.alias(Some(number));
                Visit::Skip
            }
        }
    }
    fn shared_node(&mut self, node: &dyn SharedNode) -> Visit {
        let identity = node.identity();
        if self.obstacle.is_met() || self.is_known(identity) {
            return Visit::Skip;
        }
        let visit = self.shared(identity);
        if self.collected == Handles::All && visit == Visit::Descend {
            self.references.push(Some(node.handle()));
        }
        visit
    }
    fn reference(&mut self, reference: &dyn ReferenceNode) -> Visit {
        let identity = reference.identity();
        if self.obstacle.is_met() || self.is_known(identity) {
            return Visit::Skip;
        }
        if self.known.is_some()
            && let Err(error) = reference.handle().check_return()
        {
            self.obstacle.meet(error);
            return Visit::Skip;
        }
        let visit = self.shared(identity);
        if self.collected != Handles::None && visit == Visit::Descend {
            self.references.push_reference(reference.handle());
        }
        visit
    }
    fn keep(&mut self, content: Content) -> &'a dyn Pytree {
        if let Some(writer) = &mut self.writer {
            return writer.push(content);
        }
        let path = self.builder.path();
        self.obstacle.meet(TreeError::BehindReference { path });
        &()
    }
    fn weak(&mut self, target: Option<NodeIdentity>) {
        if self.sharing == Sharing::Duplicate && target.is_some() {
            let path = self.builder.path();
            self.obstacle.meet(TreeError::WeakEdge { path });
        }
        if self.enter(&shape::WEAK, 1) == Visit::Skip {
            return;
        }
        if let Some(position) = target.and_then(|target| self.known?.number(target)) {
            self.builder.argument(position);
        } else {
            let alias = self.builder.position();
            self.weak.extend(target.map(|target| (alias, target)));
            self.builder.alias(None);
        }
        self.exit();
    }
}
