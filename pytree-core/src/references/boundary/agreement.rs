//! Brings the outcomes of several branches to one structure.
//!
//! Branches of one argument may share nodes differently: one branch returns a shared node of the argument, and another
//! branch returns a new node with a new value. A shared node has no identity that the caller needs, so the outcomes agree if
//! they agree at all paths. In the common outcome, two paths hold one node if they hold one node in every branch.

use std::collections::HashMap;

use super::Outcome;
use super::outcome::returned;
use crate::node::shape::NodeKind;
use crate::treedef::{Builder, NodeView, TreeDef};

/// The leaf of a branch at one place of the common outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BranchLeaf {
    /// The leaf at this position in the outcome of the branch.
    Outcome(usize),
    /// The leaf at this position in the argument, in a shared node that the branch returns unchanged.
    Argument(usize),
}

/// The position of a node in the outcome of a branch, or in the argument.
#[derive(Clone, Copy)]
enum Place {
    Outcome(usize),
    Argument(usize),
}

/// The identity of a shared node or reference in one branch: its number in the outcome, or in the argument.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Identity {
    Outcome(usize),
    Argument(usize),
}

impl Outcome {
    /// Returns the common outcome of several functions of one argument, which differ at most in the nodes that they share.
    /// Also returns the leaves of the common outcome for each function. Returns `None` if the outcomes differ otherwise.
    ///
    /// The functions must have written the same references.
    pub fn agreed(argument: &TreeDef, outcomes: &[&Self]) -> Option<(Self, Vec<Vec<BranchLeaf>>)> {
        let (first, rest) = outcomes.split_first()?;
        if rest.iter().any(|outcome| outcome.written != first.written) {
            return None;
        }
        let walk = Walk {
            argument: Side::of(argument),
            branches: outcomes
                .iter()
                .map(|outcome| Side::of(&outcome.whole))
                .collect(),
            numbers: HashMap::new(),
            weak: Vec::new(),
            builder: Builder::default(),
            leaves: vec![Vec::new(); outcomes.len()],
        };
        let (whole, leaves) = walk.run()?;
        let result = if first.written.is_empty() {
            whole.clone()
        } else {
            whole.subtree(1)
        };
        let agreed = Self {
            returned: returned(&whole),
            whole,
            result,
            written: first.written.clone(),
        };
        Some((agreed, leaves))
    }
}

/// A structure with the number of leaves before each node.
struct Side<'t> {
    treedef: &'t TreeDef,
    before: Vec<usize>,
}

impl<'t> Side<'t> {
    fn of(treedef: &'t TreeDef) -> Self {
        Self {
            treedef,
            before: treedef.leaves_before(),
        }
    }
}

/// The result of [`Walk::visit`] for a node without children.
const NOTHING_BELOW: (Vec<Place>, usize) = (Vec::new(), 0);

/// A walk through the outcomes of all branches at once.
struct Walk<'t> {
    argument: Side<'t>,
    branches: Vec<Side<'t>>,
    /// The number of each shared node and reference in the common outcome, by its identities in all branches.
    numbers: HashMap<Vec<Identity>, usize>,
    /// The position of the alias of each weak edge, and the identities of its target.
    weak: Vec<(usize, Vec<Identity>)>,
    builder: Builder,
    leaves: Vec<Vec<BranchLeaf>>,
}

impl<'t> Walk<'t> {
    fn run(mut self) -> Option<(TreeDef, Vec<Vec<BranchLeaf>>)> {
        // The children that are still to be visited: the places of the next child, and the number of children.
        let mut open = vec![(vec![Place::Outcome(0); self.branches.len()], 1)];
        while let Some((places, left)) = open.last_mut() {
            if *left == 0 {
                open.pop();
                if !open.is_empty() {
                    self.builder.exit();
                }
                continue;
            }
            *left -= 1;
            let here = places.clone();
            for (branch, place) in places.iter_mut().enumerate() {
                let end = self.view(branch, *place).end();
                *place = match place {
                    Place::Outcome(_) => Place::Outcome(end),
                    Place::Argument(_) => Place::Argument(end),
                };
            }
            let below = self.visit(here)?;
            if below.1 > 0 {
                open.push(below);
            }
        }
        for (alias, target) in self.weak {
            self.builder
                .set_target(alias, Some(*self.numbers.get(&target)?));
        }
        Some((self.builder.finish(), self.leaves))
    }

    fn view(&self, branch: usize, place: Place) -> NodeView<'t> {
        match place {
            Place::Outcome(node) => self.branches[branch].treedef.view(node),
            Place::Argument(node) => self.argument.treedef.view(node),
        }
    }

    /// Returns the identity of the shared node or reference at a place, or `None` if the node is neither.
    fn identity(&self, branch: usize, place: Place) -> Option<Identity> {
        let node = self.view(branch, place);
        if let Some(number) = node.number_in_argument() {
            return Some(Identity::Argument(number as usize));
        }
        let (treedef, of): (_, fn(usize) -> Identity) = match place {
            Place::Outcome(_) => (self.branches[branch].treedef, Identity::Outcome),
            Place::Argument(_) => (self.argument.treedef, Identity::Argument),
        };
        let own = || {
            let numbered = treedef.numbered_nodes();
            numbered.binary_search(&node.position()).ok()
        };
        node.target().or_else(own).map(of)
    }

    /// Returns the place at which a shared node or reference is defined.
    fn definition(&self, branch: usize, identity: Identity) -> Place {
        match identity {
            Identity::Outcome(number) => {
                Place::Outcome(self.branches[branch].treedef.numbered_nodes()[number])
            }
            Identity::Argument(number) => {
                Place::Argument(self.argument.treedef.numbered_nodes()[number])
            }
        }
    }

    /// Adds the node at one place of all branches to the common outcome. Returns the places of its first child and the
    /// number of children to be visited next, or `None` if the branches differ.
    fn visit(&mut self, mut places: Vec<Place>) -> Option<(Vec<Place>, usize)> {
        let each = || places.iter().enumerate();
        let identities: Vec<Identity> = each()
            .filter_map(|(branch, &place)| self.identity(branch, place))
            .collect();
        if !identities.is_empty() {
            if identities.len() < places.len() {
                return None;
            }
            let is_weak = self.builder.open_kinds().last() == Some(NodeKind::Weak);
            if let Identity::Argument(number) = identities[0]
                && identities.iter().all(|other| *other == identities[0])
            {
                self.builder.argument(number);
                return Some(NOTHING_BELOW);
            }
            if is_weak {
                self.weak.push((self.builder.position(), identities));
                self.builder.alias(None);
                return Some(NOTHING_BELOW);
            }
            if let Some(&number) = self.numbers.get(&identities) {
                self.builder.alias(Some(number));
                return Some(NOTHING_BELOW);
            }
            let both = identities.iter().enumerate();
            places = both
                .map(|(branch, &identity)| self.definition(branch, identity))
                .collect();
            let is_reference = self.view(0, places[0]).kind() == NodeKind::Reference;
            let is_new = |identity: &Identity| matches!(identity, Identity::Outcome(_));
            if is_reference && !identities.iter().all(is_new) {
                return None;
            }
            self.numbers.insert(identities, self.builder.next_number());
        }
        self.enter(places)
    }

    fn enter(&mut self, mut places: Vec<Place>) -> Option<(Vec<Place>, usize)> {
        let first = self.view(0, places[0]);
        let is_same = |(branch, &place): (usize, &Place)| {
            let node = self.view(branch, place);
            node.shape() == first.shape()
                && node.num_children() == first.num_children()
                && node.aux() == first.aux()
        };
        if !places.iter().enumerate().all(is_same) {
            return None;
        }
        if first.kind() == NodeKind::Leaf {
            for (branch, &place) in places.iter().enumerate() {
                self.leaves[branch].push(match place {
                    Place::Outcome(node) => BranchLeaf::Outcome(self.branches[branch].before[node]),
                    Place::Argument(node) => BranchLeaf::Argument(self.argument.before[node]),
                });
            }
            self.builder.leaf_of(first);
            return Some(NOTHING_BELOW);
        }
        let treedef = match places[0] {
            Place::Outcome(_) => self.branches[0].treedef,
            Place::Argument(_) => self.argument.treedef,
        };
        self.builder.node_of(treedef, first.position());
        for place in &mut places {
            let (Place::Outcome(node) | Place::Argument(node)) = place;
            *node += 1;
        }
        if first.num_children() == 0 {
            self.builder.exit();
        }
        Some((places, first.num_children()))
    }
}
