//! Chooses the nodes of a model that are cut to remove the selected leaves.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use pytree_base::bug::{LEAVES, expect_next};

use crate::node::shape::NodeKind;
use crate::treedef::TreeDef;

/// How a node is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// The node is removed from its parent's children.
    Item,
    /// The node was `Some` and becomes `None`.
    None,
}

/// Decides which nodes of a model are cut, so that the selected leaves are removed.
#[derive(Debug)]
pub(super) struct Plan<'t> {
    pub(super) treedef: &'t TreeDef,
    parents: Vec<usize>,
    /// For each node, and for the position after the last node: the number of remaining leaves before this position.
    kept_before: Vec<usize>,
    /// The positions of the selected leaves among the nodes.
    selected: Vec<usize>,
    /// Nodes with a fixed number of children, such as arrays.
    pub(super) fixed: HashSet<usize>,
    /// For each node, the variable that contains it: the position of the field that determines the kind of its leaves.
    variables: Vec<Option<usize>>,
    /// The nodes to be cut, each with the way in which it is cut.
    pub(super) cuts: BTreeMap<usize, Cut>,
    /// The selected leaves that cannot be removed.
    pub(super) held: BTreeSet<usize>,
}

impl<'t> Plan<'t> {
    /// Creates a plan without cuts. `selected` contains a flag for each leaf, in order.
    pub(super) fn new(treedef: &'t TreeDef, selected: &[bool]) -> Self {
        let numbered = treedef.numbered_nodes();
        let mut kept_before = vec![0];
        let mut kept = 0;
        let mut leaves = Vec::new();
        let mut flags = selected.iter();
        for node in treedef.nodes() {
            let at = node.position();
            match node.kind() {
                NodeKind::Leaf if *expect_next(&mut flags, LEAVES) => leaves.push(at),
                NodeKind::Leaf | NodeKind::Absent => kept += 1,
                _ => {}
            }
            if let Some(number) = treedef.later_place_of(at) {
                // A later occurrence of a node is removed if all leaves of the node are removed.
                let before = |at: usize| kept_before.get(at).copied();
                let target = numbered.get(number).copied().unwrap_or(at);
                let end = treedef.view(target).end();
                let goes = before(target)
                    .zip(before(end))
                    .is_none_or(|(start, end)| start == end);
                kept += usize::from(!goes);
            }
            kept_before.push(kept);
        }
        let (parents, variables) = above(treedef);
        Self {
            treedef,
            parents,
            kept_before,
            selected: leaves,
            fixed: HashSet::new(),
            variables,
            cuts: BTreeMap::new(),
            held: BTreeSet::new(),
        }
    }

    /// Decides which nodes are cut, and which selected leaves cannot be removed.
    pub(super) fn make(&mut self) {
        self.cuts.clear();
        self.held.clear();
        for leaf in self.selected.clone() {
            self.empty(leaf);
        }
        let shared = self.treedef.numbered_nodes();
        let aliases = (0..self.treedef.num_nodes()).filter_map(|at| {
            let target = *shared.get(self.treedef.later_place_of(at)?)?;
            Some((at, target))
        });
        let mut aliases: Vec<(usize, usize)> = aliases.collect();
        // Repeats the step until nothing changes: a node that is cut for one shared node may contain the first
        // occurrence of another shared node.
        loop {
            let before = aliases.len();
            aliases.retain(|&(alias, target)| {
                let dangles = self.is_cut(target) && !self.is_cut(alias);
                if dangles && !self.empty(alias) {
                    // The later occurrence cannot be removed, so the first occurrence is kept, too.
                    self.restore(target);
                }
                !dangles
            });
            if aliases.len() == before {
                break;
            }
        }
    }

    /// Removes the selected leaf or alias at `place` by cutting a node. The node must contain `place`, contain only
    /// selected leaves, and be in the same variable as `place`. Among such nodes, cuts the outermost `Some` or, if
    /// there is none, the outermost item of a container. Returns whether there is such a node.
    fn empty(&mut self, place: usize) -> bool {
        let kind = |at: usize| self.treedef.view(at).kind();
        let variable = self.variables[place];
        let (mut some, mut item) = (None, None);
        let mut at = place;
        while self.is_all_selected(at) {
            let parent = self.parents[at];
            let is_root = at == 0;
            if kind(at) == NodeKind::Some {
                some = Some(at);
            }
            if variable == Some(at) || is_root {
                break;
            }
            if self.gives_items(parent) {
                item = Some(at);
            }
            // A leaf without a kind is a variable of its own.
            if variable.is_none() && !kind(parent).is_transparent() {
                break;
            }
            at = parent;
        }
        let cut = some.map(|some| (some, Cut::None));
        let Some((node, cut)) = cut.or(item.map(|item| (item, Cut::Item))) else {
            self.held.insert(place);
            return false;
        };
        self.cuts.insert(node, cut);
        true
    }

    /// Removes the cuts of a node and of all nodes above it.
    fn restore(&mut self, node: usize) {
        for above in upwards(&self.parents, node) {
            self.cuts.remove(&above);
        }
    }

    /// Returns whether a node, or a node above it, is cut.
    pub(super) fn is_cut(&self, node: usize) -> bool {
        upwards(&self.parents, node).any(|above| self.cuts.contains_key(&above))
    }

    fn is_all_selected(&self, node: usize) -> bool {
        let end = self.treedef.view(node).end();
        self.kept_before[node] == self.kept_before[end]
    }

    /// Returns whether children may be removed from a node.
    fn gives_items(&self, node: usize) -> bool {
        match self.treedef.view(node).kind() {
            NodeKind::List | NodeKind::Tuple => !self.fixed.contains(&node),
            kind => matches!(kind, NodeKind::Dict | NodeKind::OrderedDict),
        }
    }
}

/// Iterates over a node and the nodes above it, up to the root, which is its own parent.
fn upwards(parents: &[usize], node: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(node), |&at| (at > 0).then(|| parents[at]))
}

/// Returns for each node its parent and the variable that contains it. The root is its own parent.
fn above(treedef: &TreeDef) -> (Vec<usize>, Vec<Option<usize>>) {
    let mut parents = vec![0; treedef.num_nodes()];
    let mut variables = vec![None; treedef.num_nodes()];
    for node in treedef.nodes() {
        let at = node.position();
        // The reference's own kind is ignored, because the reference is a variable of its own.
        let shape = Some(node.shape()).filter(|shape| !shape.kind().is_transparent());
        for (position, child) in node.children().enumerate() {
            let child = child.position();
            parents[child] = at;
            let decides = shape
                .and_then(|shape| shape.field_kind(position))
                .filter(|kind| kind.decides());
            variables[child] = variables[at].or(decides.map(|_| child));
        }
    }
    (parents, variables)
}
