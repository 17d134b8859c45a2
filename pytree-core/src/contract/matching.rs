//! Matches a value against stored treedefs, without building a treedef of the value.
//!
//! A single walk compares several treedefs. If a node of the value differs from a treedef, the walk continues with the
//! next treedef that agrees with the value up to and including this node. If there is none, the walk ends. So does a
//! walk that meets an obstacle: the value does not match, and the caller flattens it, which reports the obstacle. The
//! targets of weak edges are compared at the
//! end, with the one treedef that remains. So if stored treedefs differ only in these targets, a match may be missed.

use std::sync::Arc;

use crate::base::error::TreeError;
use crate::base::identity::{IdentityMap, NodeIdentity};
use crate::base::path::KeyPath;
use crate::contract::arena::{Arena, ArenaWriter, Content};
use crate::contract::depth::{self, DEPTH_LIMIT};
use crate::contract::flatten::Sharing;
use crate::contract::handles::References;
use crate::contract::pytree::{Pytree, ReferenceNode, SharedNode, Visit, Visitor};
use crate::node::leaf::Leaf;
use crate::node::shape::{self, DynamicShape, NodeKind, NodeShape, Shape};
use crate::node::statics::StaticRef;
use crate::treedef::{Cursor, Step, TreeDef};

/// A visitor that compares a value with stored treedefs, and passes each leaf of the value to a callback.
pub(crate) struct Match<'a, 't, F: FnMut(&'a dyn Leaf)> {
    treedef: &'t TreeDef,
    next: Cursor<'t>,
    /// Returns a stored treedef by its position. The first treedef has position 0 and is not returned by this function.
    others: Option<&'t dyn Fn(usize) -> Option<&'t TreeDef>>,
    /// The position of `treedef`, which is 0 for the first treedef. The value differs from all treedefs at earlier
    /// positions.
    position: usize,
    on_leaf: F,
    matches: bool,
    /// The address of the stack where the walk ended, if it has ended at a node that differs.
    ended: usize,
    /// The number of open nodes. A node is open while its visit has begun but not ended.
    num_open: usize,
    /// The kinds of the open nodes, from the root down. Maintained only if `tracks` is true.
    open: Vec<NodeKind>,
    /// Whether the walk maintains `open`. A value that matches a treedef is not deeper than this treedef. So the walk
    /// needs `open` only for a treedef that may exceed the depth limit of typed values.
    tracks: bool,
    sharing: Sharing,
    seen: IdentityMap,
    writer: Option<ArenaWriter<'a>>,
    /// The references that were visited.
    references: References,
    /// The indices of the shared nodes whose handles are requested; `None` requests all.
    wanted: Option<&'t [u32]>,
    /// Whether the treedef was built from a value of the same type, and the leaves are not needed.
    is_again: bool,
    /// For each weak edge, the identity of its target in the value, and the index of its target among the shared nodes
    /// and references of the treedef. The walk compares the two targets at its end, because the walk may visit a target
    /// after the edge.
    weak: Vec<(Option<NodeIdentity>, Option<usize>)>,
}

impl<'a, 't> Match<'a, 't, fn(&'a dyn Leaf)> {
    /// Compares a value with the structure of another value of the same type, and ignores the leaves. The structures
    /// match only if their static values cannot be distinguished.
    pub(crate) fn again(treedef: &'t TreeDef) -> Self {
        Self {
            is_again: true,
            ..Self::new(treedef, Sharing::Preserve, |_| ())
        }
    }
}

impl<'a, 't, F: FnMut(&'a dyn Leaf)> Match<'a, 't, F> {
    pub(crate) fn new(treedef: &'t TreeDef, sharing: Sharing, on_leaf: F) -> Self {
        Self {
            treedef,
            next: Cursor::new(treedef),
            others: None,
            position: 0,
            on_leaf,
            matches: true,
            ended: 0,
            num_open: 0,
            open: Vec::new(),
            tracks: treedef.depth() > DEPTH_LIMIT,
            sharing,
            seen: IdentityMap::default(),
            writer: None,
            references: References::default(),
            wanted: None,
            is_again: false,
            weak: Vec::new(),
        }
    }

    /// Stores the contents of references in `arena`, so that their leaves can be borrowed.
    pub(crate) fn with_arena(mut self, arena: &'a Arena) -> Self {
        self.writer = Some(arena.writer());
        self
    }

    /// Allows several treedefs: if the value differs from one treedef, it is compared with the next. `others` returns a treedef by its
    /// position, which is at least 1 because the first treedef has position 0.
    pub(crate) fn or(mut self, others: &'t dyn Fn(usize) -> Option<&'t TreeDef>) -> Self {
        self.others = Some(others);
        self
    }

    pub(crate) fn run<T: Pytree + ?Sized>(mut self, tree: &'a T) -> bool {
        self.run_visiting(|matching| tree.visit(matching)).is_some()
    }

    /// Collects handles only of the shared nodes whose indices are in `wanted`. `wanted` must be in ascending order.
    pub(crate) fn wanting(mut self, wanted: &'t [u32]) -> Self {
        self.wanted = Some(wanted);
        self
    }

    /// Returns the visited references and the position of the matching treedef, or `None` if no treedef matches.
    pub(crate) fn run_visiting(
        &mut self,
        visit: impl FnOnce(&mut Self),
    ) -> Option<(References, usize)> {
        self.references.reserve(self.treedef.num_numbered());
        visit(self);
        self.next_is(|next| next.is_at_end());
        let mut weak = self.weak.iter();
        let matches = self.matches
            && weak
                .all(|(target, stored)| target.and_then(|target| self.seen.get(target)) == *stored);
        matches.then(|| (std::mem::take(&mut self.references), self.position))
    }

    /// Matches an alias of node `number`; if `number` is `None`, matches an alias without a target.
    fn alias(&mut self, number: Option<usize>) {
        self.next_is(move |next| next.pass_alias(number));
    }

    /// Passes the next alias of the treedef without comparing its target, and returns the index of the target.
    fn stored_alias(&mut self) -> Option<usize> {
        self.node(&shape::ALIAS, 0);
        if !self.matches {
            return None;
        }
        self.next.passed_target()
    }

    #[inline]
    fn node(&mut self, shape: &'static NodeShape, arity: usize) {
        self.next_is(move |next| next.pass_node(shape, arity));
    }

    fn dynamic_node(&mut self, shape: &Arc<DynamicShape>, arity: usize) {
        self.next_is(|next| next.pass_dynamic(shape, arity));
    }

    /// Compares the visited node with the next node of the treedef. To do so, calls `pass`, which also moves the cursor
    /// past the next node.
    #[inline]
    fn next_is(&mut self, pass: impl Fn(&mut Cursor<'t>) -> bool) {
        if self.matches && !pass(&mut self.next) {
            self.go_on_with_another(pass);
        }
    }

    /// Continues with the next treedef that agrees with the value up to and including the visited node. A treedef that
    /// differs from the value is not tried again.
    #[cold]
    #[inline(never)]
    fn go_on_with_another(&mut self, pass: impl Fn(&mut Cursor<'t>) -> bool) {
        let visited = self.next.position();
        self.matches = self.passes_another(pass);
        self.ended = depth::stack_address();
        if !self.tracks && self.matches && self.treedef.depth() > DEPTH_LIMIT {
            self.tracks = true;
            self.open = self.kinds_around(visited);
        }
    }

    fn passes_another(&mut self, pass: impl Fn(&mut Cursor<'t>) -> bool) -> bool {
        while let Some(others) = self.others
            && let Some(other) = others(self.position + 1)
        {
            self.position += 1;
            if let Some(mut next) = self.next.in_another(other)
                && pass(&mut next)
            {
                (self.treedef, self.next) = (other, next);
                return true;
            }
        }
        false
    }

    /// Returns the kinds of the open nodes, from the root down. `visited` is the number of nodes of the treedef that
    /// the value has passed.
    fn kinds_around(&self, visited: usize) -> Vec<NodeKind> {
        // Each open node contains the last passed node, or is the last passed node itself. `take` removes the innermost
        // nodes, whose visit has ended or which belong to a dynamic tree.
        let Some(last) = visited.checked_sub(1) else {
            return Vec::new();
        };
        let around = self.treedef.nodes_around(last).map(|(node, _)| node);
        let around = around.chain([self.treedef.view(last)]);
        around.map(|node| node.kind()).take(self.num_open).collect()
    }

    /// Begins a node, after it was compared with the treedef.
    #[inline]
    fn begin(&mut self, kind: NodeKind) -> Visit {
        if self.tracks {
            self.track(kind);
        }
        self.num_open += 1;
        self.goes_on()
    }

    /// Returns whether the walk goes on: the value matches so far.
    #[inline]
    fn goes_on(&self) -> Visit {
        if self.matches {
            Visit::Descend
        } else {
            self.skip()
        }
    }

    /// Skips a node after the walk has ended.
    ///
    /// # Panics
    /// If a handwritten impl of `Pytree` ignores this answer and calls itself so often that the stack would overflow.
    #[cold]
    fn skip(&self) -> Visit {
        let path = KeyPath::root();
        let limit = DEPTH_LIMIT;
        let is_deep = self.ended > 0 && depth::has_grown_since(self.ended);
        assert!(!is_deep, "{}", TreeError::TooDeep { limit, path });
        Visit::Skip
    }

    /// Records that a node begins. If the node exceeds the greatest depth, the walk ends.
    #[cold]
    fn track(&mut self, kind: NodeKind) {
        self.matches &= depth::check(self.open.iter().copied(), kind).is_ok();
        self.open.push(kind);
    }
}

impl<'a, F: FnMut(&'a dyn Leaf)> Visitor<'a> for Match<'a, '_, F> {
    fn enter(&mut self, shape: &'static NodeShape, arity: usize) -> Visit {
        self.node(shape, arity);
        self.begin(shape.kind)
    }
    fn enter_dynamic(&mut self, shape: &Arc<DynamicShape>, arity: usize) -> Visit {
        self.dynamic_node(shape, arity);
        self.begin(shape.kind())
    }
    fn refuse(&mut self, _: TreeError) {
        self.matches = false;
    }
    fn tree(&mut self, treedef: &'a TreeDef, leaves: &mut dyn Iterator<Item = &'a dyn Leaf>) {
        // The nodes of a dynamic tree need no recursion, so they do not count for the depth limit. Inside of the tree,
        // the indices of shared nodes and references begin at 0. So the number of such nodes before the tree is added
        // to each index.
        let before = self.seen.len();
        treedef.show_nodes(leaves, |step| match step {
            Step::Enter(Shape::Static(shape), arity) => self.node(shape, arity),
            Step::Enter(Shape::Dynamic(shape), arity) => self.dynamic_node(shape, arity),
            Step::Aux(value) => self.aux(value),
            Step::Leaf(leaf) => self.leaf(leaf),
            Step::Absent(splits) => self.next_is(|next| next.pass_absent(splits)),
            Step::Alias(number) => self.alias(number.map(|number| number + before)),
            Step::Exit => {}
        });
        self.seen.skip(treedef.num_numbered());
        self.references.skip(treedef.num_numbered());
    }
    fn aux(&mut self, value: StaticRef<'a>) {
        if self.is_again && !value.is_exact() {
            self.matches = false;
        }
        self.next_is(|next| next.pass_static(&value));
    }
    fn __repeat(&mut self, count: usize) -> bool {
        // The node that contains the children was compared, and the type of the children determines their structure.
        if self.is_again && self.matches {
            self.next.pass_siblings(count);
        }
        self.is_again
    }
    fn leaf(&mut self, leaf: &'a dyn Leaf) {
        if self.matches {
            self.next_is(Cursor::pass_leaf);
            (self.on_leaf)(leaf);
        }
    }
    fn exit(&mut self) {
        self.num_open = self.num_open.saturating_sub(1);
        if self.tracks {
            self.open.pop();
        }
    }
    fn shared(&mut self, identity: NodeIdentity) -> Visit {
        if self.sharing == Sharing::Duplicate || !self.matches {
            return self.goes_on();
        }
        match self.seen.insert(identity) {
            Ok(()) => Visit::Descend,
            Err(number) => {
                self.alias(Some(number));
                Visit::Skip
            }
        }
    }
    fn reference(&mut self, reference: &dyn ReferenceNode) -> Visit {
        let visit = self.shared(reference.identity());
        if !self.matches {
            return Visit::Skip;
        }
        if visit == Visit::Descend {
            self.references.push_reference(reference.handle());
        }
        visit
    }
    fn shared_node(&mut self, node: &dyn SharedNode) -> Visit {
        let visit = self.shared(node.identity());
        if self.matches && visit == Visit::Descend {
            let number = self.references.num_nodes();
            let is_wanted = |wanted: &[u32]| {
                wanted
                    .binary_search_by(|&one| (one as usize).cmp(&number))
                    .is_ok()
            };
            let is_wanted = self.wanted.is_none_or(is_wanted);
            self.references.push(is_wanted.then(|| node.handle()));
        }
        visit
    }
    fn keep(&mut self, content: Content) -> &'a dyn Pytree {
        if let Some(writer) = &mut self.writer {
            return writer.push(content);
        }
        self.matches = false;
        &()
    }
    fn weak(&mut self, target: Option<NodeIdentity>) {
        if self.sharing == Sharing::Duplicate && target.is_some() {
            self.matches = false;
        }
        self.node(&shape::WEAK, 1);
        let stored = self.stored_alias();
        self.weak.push((target, stored));
    }
}
