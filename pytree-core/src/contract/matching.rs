//! Matching a value against a stored treedef, without building one.

use crate::base::bug::expect_at;
use crate::base::identity::{Identity, IdentityMap};
use crate::base::path::KeyPath;
use crate::contract::flatten::Sharing;
use crate::contract::handles::References;
use crate::contract::kept::{Content, Keeper, Kept};
use crate::contract::pytree::{Pytree, ReferenceNode, SharedNode, SharedVisit, Visitor};
use crate::contract::unflatten::DEPTH_LIMIT;
use crate::node::leaf::Leaf;
use crate::node::shape::{self, NodeShape};
use crate::node::statics::StaticRef;
use crate::treedef::{Inner, Step, TreeDef, path_of};

/// Compares a tree with a stored treedef without building one, handing each leaf on.
pub(crate) struct Match<'a, 't, F: FnMut(&'a dyn Leaf)> {
    treedef: &'t Inner,
    on_leaf: F,
    node: usize,
    aux: usize,
    matches: bool,
    /// The number of nodes that were entered and not left.
    depth: usize,
    sharing: Sharing,
    seen: IdentityMap,
    keeper: Option<Keeper<'a>>,
    /// The references that were met.
    references: References,
    /// The numbers of the shared nodes whose handles are asked for; all, if nobody says.
    wanted: Option<&'t [u32]>,
    /// Where weak edges lead, and the numbers that the treedef says: they are compared when all is seen.
    weak: Vec<(Option<Identity>, Option<usize>)>,
}

impl<'a, 't, F: FnMut(&'a dyn Leaf)> Match<'a, 't, F> {
    pub(crate) fn new(treedef: &'t TreeDef, sharing: Sharing, on_leaf: F) -> Self {
        Self {
            treedef: &treedef.0,
            on_leaf,
            node: 0,
            aux: 0,
            matches: true,
            depth: 0,
            sharing,
            seen: IdentityMap::default(),
            keeper: None,
            references: References::default(),
            wanted: None,
            weak: Vec::new(),
        }
    }

    /// Keeps what references hold, so that their leaves can be visited.
    pub(crate) fn keeping(mut self, kept: &'a Kept) -> Self {
        self.keeper = Some(kept.keeper());
        self
    }

    pub(crate) fn run<T: Pytree + ?Sized>(self, tree: &'a T) -> bool {
        self.run_with_references(tree).is_some()
    }

    /// Takes handles of the shared nodes with these numbers only, which are in order.
    pub(crate) fn wanting(mut self, wanted: &'t [u32]) -> Self {
        self.wanted = Some(wanted);
        self
    }

    /// The references that were met, if the tree is of that structure.
    pub(crate) fn run_with_references<T: Pytree + ?Sized>(
        mut self,
        tree: &'a T,
    ) -> Option<References> {
        self.references.reserve(self.treedef.numbered);
        tree.visit(&mut self);
        let matches = self.matches
            && self.node == self.treedef.nodes.len()
            && self.aux == self.treedef.aux.len()
            && self
                .weak
                .iter()
                .all(|(target, stored)| target.and_then(|target| self.seen.get(target)) == *stored);
        matches.then_some(self.references)
    }

    /// The number that an alias in the treedef has, which comes next; none, if it is of nothing.
    fn alias(&mut self) -> Option<usize> {
        self.node(&shape::ALIAS, 0);
        if !self.matches {
            return None;
        }
        let expected = "the node that matched";
        expect_at(&self.treedef.nodes, self.node - 1, expected).target()
    }

    /// The last place that matches.
    fn path(&self) -> KeyPath {
        let last = self.treedef.nodes.len().saturating_sub(1);
        path_of(self.treedef, self.node.min(last))
    }

    fn node(&mut self, shape: &'static NodeShape, arity: usize) {
        if !self.matches {
            return;
        }
        match self.treedef.nodes.get(self.node) {
            Some(node) if node.arity as usize == arity && node.shape == shape => self.node += 1,
            _ => self.matches = false,
        }
    }
}

impl<'a, F: FnMut(&'a dyn Leaf)> Visitor<'a> for Match<'a, '_, F> {
    fn enter(&mut self, shape: &'static NodeShape, arity: usize) {
        assert!(
            self.depth < DEPTH_LIMIT,
            "{}",
            crate::base::error::too_deep(DEPTH_LIMIT, &self.path())
        );
        self.depth += 1;
        self.node(shape, arity);
    }
    fn tree(&mut self, treedef: &'a TreeDef, leaves: &mut dyn Iterator<Item = &'a dyn Leaf>) {
        // The nodes of a dynamic tree are not recursion: they don't count. Its aliases have numbers of their own.
        let before = self.seen.len();
        treedef.show_nodes(leaves, |step| match step {
            Step::Enter(shape, arity) => self.node(shape, arity),
            Step::Aux(value) => self.aux(value),
            Step::Leaf(leaf) => self.leaf(leaf),
            Step::Absent => self.node(&shape::ABSENT, 0),
            Step::Alias(number) => {
                let stored = self.alias();
                self.matches &= stored == number.map(|number| number + before);
            }
            Step::Exit => {}
        });
        self.seen.skip(treedef.0.numbered);
        self.references.skip(treedef.0.numbered);
    }
    fn aux(&mut self, value: StaticRef<'a>) {
        if self.matches {
            match self.treedef.aux.get(self.aux) {
                Some(stored) if value == *stored => self.aux += 1,
                _ => self.matches = false,
            }
        }
    }
    fn leaf(&mut self, leaf: &'a dyn Leaf) {
        if self.matches {
            self.node(&shape::LEAF, 0);
            (self.on_leaf)(leaf);
        }
    }
    fn exit(&mut self) {
        self.depth -= 1;
    }
    fn shared(&mut self, identity: Identity) -> SharedVisit {
        if self.sharing == Sharing::Duplicate {
            return SharedVisit::Descend;
        }
        match self.seen.insert(identity) {
            Ok(()) => SharedVisit::Descend,
            Err(number) => {
                let stored = self.alias();
                self.matches &= stored == Some(number);
                SharedVisit::Skip
            }
        }
    }
    fn reference(&mut self, reference: &dyn ReferenceNode) -> SharedVisit {
        let visit = self.shared(reference.identity());
        if !self.matches {
            return SharedVisit::Skip;
        }
        if visit == SharedVisit::Descend {
            self.references.push_reference(reference.handle());
        }
        visit
    }
    fn shared_node(&mut self, node: &dyn SharedNode) -> SharedVisit {
        let visit = self.shared(node.identity());
        if self.matches && visit == SharedVisit::Descend {
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
        match &mut self.keeper {
            Some(keeper) => keeper.keep(content),
            None => panic!("{}", crate::base::error::behind_a_reference(&self.path())),
        }
    }
    fn weak(&mut self, target: Option<Identity>) {
        assert!(
            self.sharing == Sharing::Preserve || target.is_none(),
            "{}",
            crate::base::error::weak_in_a_tree(&self.path())
        );
        self.node(&shape::WEAK, 1);
        let stored = self.alias();
        self.weak.push((target, stored));
    }
}
