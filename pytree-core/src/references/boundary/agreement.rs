//! Brings the outcomes of several branches to one structure.
//!
//! One branch may return a shared node of the argument, and another branch a new node with a new value. A shared node has no
//! identity that the caller needs, so the outcomes agree if they agree at all paths. In the common outcome, two paths hold
//! one node if they hold one node in every branch.

use std::collections::HashMap;

use super::Outcome;
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

/// A node, leaf, shared node or reference of one side, by its number on this side. Side 0 is the argument, and side 1 + i is
/// the outcome of branch i.
type OnSide = (usize, usize);

/// The places of a node in all branches, and the number of its following siblings, including itself.
type Places = (Vec<OnSide>, usize);

/// The branches differ.
struct Differs;

/// The places of the children of a node, if they follow.
type Visited = Result<Option<Places>, Differs>;

impl Outcome {
    /// Returns the common outcome of several functions of one argument, which differ at most in the nodes that they share.
    /// Also returns the leaves of the common outcome for each function. Returns `None` if the outcomes differ otherwise.
    ///
    /// The functions must have written the same references.
    pub fn agreed(argument: &TreeDef, outcomes: &[&Self]) -> Option<(Self, Vec<Vec<BranchLeaf>>)> {
        let wholes = outcomes.iter().map(|outcome| &outcome.whole);
        let sides: Vec<&TreeDef> = std::iter::once(argument).chain(wholes).collect();
        let walk = Walk {
            before: sides.iter().map(|side| side.leaves_before()).collect(),
            leaves: vec![Vec::new(); outcomes.len()],
            sides,
            numbers: HashMap::new(),
            weak: Vec::new(),
            builder: Builder::default(),
        };
        let (whole, leaves) = walk.run()?;
        let written = outcomes.first()?.written.clone();
        Some((Self::new(whole, written), leaves))
    }
}

/// A walk through the outcomes of all branches at once.
struct Walk<'t> {
    sides: Vec<&'t TreeDef>,
    /// The number of leaves before each node of each side.
    before: Vec<Vec<usize>>,
    leaves: Vec<Vec<BranchLeaf>>,
    /// The number of each shared node and reference in the common outcome, by its identities in all branches.
    numbers: HashMap<Vec<OnSide>, usize>,
    /// The position of the alias of each weak edge, and the identities of its target.
    weak: Vec<(usize, Vec<OnSide>)>,
    builder: Builder,
}

impl<'t> Walk<'t> {
    fn run(mut self) -> Option<(TreeDef, Vec<Vec<BranchLeaf>>)> {
        let roots = (1..self.sides.len()).map(|side| (side, 0)).collect();
        let mut open: Vec<Places> = vec![(roots, 1)];
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
            for place in places {
                place.1 = self.view(*place).end();
            }
            open.extend(self.visit(here).ok()?);
        }
        for (alias, target) in self.weak {
            self.builder
                .set_target(alias, Some(*self.numbers.get(&target)?));
        }
        Some((self.builder.finish(), self.leaves))
    }

    fn view(&self, (side, node): OnSide) -> NodeView<'t> {
        self.sides[side].view(node)
    }

    /// Returns the identity of the shared node or reference at a place, or `None` if the node is neither.
    fn identity(&self, place: OnSide) -> Option<OnSide> {
        let node = self.view(place);
        if let Some(number) = node.number_in_argument() {
            return Some((0, number as usize));
        }
        let numbered = self.sides[place.0].numbered_nodes();
        let own = || numbered.binary_search(&place.1).ok();
        node.target().or_else(own).map(|number| (place.0, number))
    }

    /// Adds the node at one place of all branches to the common outcome. Returns the places of its children if they follow.
    fn visit(&mut self, mut places: Vec<OnSide>) -> Visited {
        let identities = places.iter().filter_map(|&place| self.identity(place));
        let identities: Vec<OnSide> = identities.collect();
        if !identities.is_empty() {
            if identities.len() < places.len() {
                return Err(Differs);
            }
            let is_known = identities
                .iter()
                .all(|identity| *identity == (0, identities[0].1));
            let is_weak = self.builder.open_kinds().last() == Some(NodeKind::Weak);
            if is_known {
                self.builder.argument(identities[0].1);
                return Ok(None);
            } else if is_weak {
                self.weak.push((self.builder.position(), identities));
                self.builder.alias(None);
                return Ok(None);
            } else if let Some(&number) = self.numbers.get(&identities) {
                self.builder.alias(Some(number));
                return Ok(None);
            }
            let definition =
                |&(side, number): &OnSide| (side, self.sides[side].numbered_nodes()[number]);
            places = identities.iter().map(definition).collect();
            // A reference has an identity, so a reference of the argument agrees only with itself.
            let is_reference = self.view(places[0]).kind() == NodeKind::Reference;
            if is_reference && places.iter().any(|place| place.0 == 0) {
                return Err(Differs);
            }
            self.numbers.insert(identities, self.builder.next_number());
        }
        self.enter(places)
    }

    fn enter(&mut self, mut places: Vec<OnSide>) -> Visited {
        let first = self.view(places[0]);
        let is_same = |place: &OnSide| {
            let node = self.view(*place);
            let has_shape = node.shape() == first.shape() && node.aux() == first.aux();
            has_shape && node.num_children() == first.num_children()
        };
        if !places.iter().all(is_same) {
            return Err(Differs);
        }
        if first.kind() == NodeKind::Leaf {
            for (leaves, (side, node)) in self.leaves.iter_mut().zip(places) {
                let leaf = self.before[side][node];
                leaves.push(match side {
                    0 => BranchLeaf::Argument(leaf),
                    _ => BranchLeaf::Outcome(leaf),
                });
            }
            self.builder.leaf_of(first);
            return Ok(None);
        }
        self.builder
            .node_of(self.sides[places[0].0], first.position());
        places.iter_mut().for_each(|place| place.1 += 1);
        Ok(Some((places, first.num_children())))
    }
}
