//! The outcome of a function: the structures of its result and of the written references.

use std::collections::HashSet;

use pytree_base::bug::expect_at;

use super::{Visited, matched};
use crate::base::error::TreeError;
use crate::contract::arena::Arena;
use crate::contract::flatten::{Flatten, Sharing, mapping};
use crate::contract::handles::References;
use crate::contract::obstacle::passed;
use crate::contract::pytree::{Pytree, PytreeOf};
use crate::contract::unflatten::{self, Outside, Unflattener};
use crate::node::leaf::Leaf;
use crate::node::shape;
use crate::treedef::{Builder, TreeDef};

/// The outcome of a function, without leaves: the structure of the result, and the structure of each value that the
/// function wrote to a reference in its argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The structure of the result. If references were written, the structure of a tuple instead: the result and the
    /// written values.
    pub(super) whole: TreeDef,
    pub(super) result: TreeDef,
    /// The positions of the written references among the references of the argument.
    pub(super) written: Vec<usize>,
    /// The shared nodes and references of the argument that are also in the outcome, by their indices in the argument.
    pub(super) returned: Vec<u32>,
}

impl Outcome {
    /// Creates the outcome of a function that has written the references at the positions `written`.
    pub(super) fn new(whole: TreeDef, written: Vec<usize>) -> Self {
        let result = if written.is_empty() {
            whole.clone()
        } else {
            whole.subtree(1)
        };
        let nodes = whole.nodes();
        let mut returned: Vec<u32> = nodes.filter_map(|node| node.number_in_argument()).collect();
        returned.sort_unstable();
        returned.dedup();
        Self {
            whole,
            result,
            written,
            returned,
        }
    }

    /// Flattens the result of a function and the values of the written references. Returns the leaves of the result
    /// followed by the leaves of these values, and the outcome.
    ///
    /// `argument` contains the references of the argument. `written` lists the positions of the written references in
    /// `argument`.
    ///
    /// # Panics
    /// If a trait object in the result holds a leaf of another type, or a reference may not be read here.
    #[track_caller]
    pub fn of<L: Leaf + Clone, R: PytreeOf<L>>(
        result: &R,
        argument: &References,
        written: Vec<usize>,
    ) -> (Vec<L>, Self) {
        let mut leaves = Vec::new();
        let arena = Arena::default();
        let mut flatten = Flatten::new(Sharing::Preserve, mapping(&mut leaves, L::clone))
            .with_arena(&arena)
            .knowing(argument);
        if written.is_empty() {
            let whole = passed(flatten.run(result));
            return (leaves, Self::new(whole, written));
        }
        flatten.visit_tuple(1 + written.len(), |position, flatten| {
            match position.checked_sub(1) {
                None => result.visit(flatten),
                Some(at) => {
                    let expected =
                        "each position in `written` to be that of a reference in the argument";
                    flatten.visit_content(expect_at(&argument.cells, written[at], expected));
                }
            }
        });
        let whole = passed(flatten.finish());
        (leaves, Self::new(whole, written))
    }

    /// Flattens the argument of a function whose outcomes are known for some structures of the argument; see
    /// [`flatten_as`]. The members of the argument may be borrowed from different memory locations.
    ///
    /// For each position, `known` returns the structure of an argument, and an outcome. `choose` receives the position
    /// of a matching structure and the leaves, and returns the position of an outcome for this structure. This function
    /// returns the chosen position, the leaves and the references.
    ///
    /// The argument is walked a second time if the chosen outcome needs handles of other shared nodes than the first
    /// outcome. Among structures that differ only in the targets of weak edges, only one is compared.
    ///
    /// Drops the handles of the shared nodes that the chosen outcome does not contain. A function that owns its
    /// argument may then reuse the memory of these nodes.
    pub fn flatten_argument<'t, L: Leaf + Clone>(
        argument: &dyn Visited<L>,
        known: &dyn Fn(usize) -> Option<(&'t TreeDef, &'t Self)>,
        choose: &dyn Fn(usize, &[&L]) -> Option<usize>,
    ) -> Option<(usize, Vec<L>, References)> {
        let (treedef, outcome) = known(0)?;
        let others = |position| known(position).map(|(treedef, _)| treedef);
        let returned = outcome.returned.as_slice();
        let found = matched(argument, treedef, &others, Some(returned), choose)?;
        if found.0 == 0 {
            return Some(found);
        }
        let (treedef, outcome) = known(found.0)?;
        if outcome.returned == returned {
            return Some(found);
        }
        // The first walk collected handles of the shared nodes that the first outcome returns. The chosen outcome
        // returns other nodes, so another walk collects their handles.
        let again = |_: usize, leaves: &[&L]| choose(found.0, leaves).filter(|&at| at == found.0);
        let returned = outcome.returned.as_slice();
        matched(argument, treedef, &|_| None, Some(returned), &again)
    }

    /// Drops the handles of the argument's shared nodes that are not in the outcome. A function that owns its argument
    /// may then reuse the memory of these nodes.
    pub fn release(&self, argument: &mut References) {
        argument.release(|number| self.returned.binary_search(&number).is_ok());
    }

    /// Returns the references of the argument, and only those of its shared nodes that are also in the outcome. A later visit
    /// does not recognize the removed shared nodes.
    #[must_use]
    pub fn returned_of(&self, argument: References) -> References {
        argument.retained(|number| self.returned.binary_search(&number).is_ok())
    }

    /// Returns this outcome restricted to the references at the positions `written`, and the positions of the remaining
    /// leaves.
    ///
    /// `written` must contain the positions of all references that the function has written. The values of the other
    /// references contain only nodes of the argument, so no alias in the outcome refers to a node in these values.
    #[must_use]
    pub fn only(&self, written: &[usize]) -> (Self, Vec<usize>) {
        if self.written.is_empty() {
            return (self.clone(), (0..self.whole.num_leaves()).collect());
        }
        // There may be many positions, so a set is faster than a search in the slice for each position.
        let kept: HashSet<usize> = written.iter().copied().collect();
        let is_kept = |position: &usize| kept.contains(position);
        let written: Vec<usize> = self.written.iter().copied().filter(is_kept).collect();
        let mut builder = Builder::default();
        if !written.is_empty() {
            builder.enter(&shape::TUPLE, 1 + written.len());
        }
        let mut leaves = Vec::new();
        let (mut start, mut before) = (1, 0);
        for position in std::iter::once(None).chain(self.written.iter().map(Some)) {
            let held = self.whole.view(start);
            let end = held.end();
            let after = before + held.num_leaves();
            if position.is_none_or(is_kept) {
                builder.nodes_of(&self.whole, start..end);
                leaves.extend(before..after);
            }
            (start, before) = (end, after);
        }
        if !written.is_empty() {
            builder.exit();
        }
        (Self::new(builder.finish(), written), leaves)
    }

    /// Returns whether the function writes references of its argument.
    #[inline]
    pub fn writes(&self) -> bool {
        !self.written.is_empty()
    }

    /// Returns the structure of the result alone.
    pub fn result(&self) -> &TreeDef {
        &self.result
    }

    /// Returns the structure of each written value, and the position of the reference that received the value.
    pub fn written(&self) -> impl Iterator<Item = (usize, TreeDef)> {
        let values = self.whole.children().into_iter().skip(1);
        self.written.iter().copied().zip(values)
    }

    /// Returns the number of leaves of the result and of the written values.
    pub fn num_leaves(&self) -> usize {
        self.whole.num_leaves()
    }

    /// Unflattens the result with the references of the argument, and writes the values that the function wrote to
    /// these references.
    ///
    /// # Errors
    /// Returns an error if:
    /// - there are too few or too many leaves
    /// - a structure does not match the type of its value
    /// - a reference may not be written here
    ///
    /// Returns a [conflict](TreeError::is_conflict) if a reference is to be written and another thread has written a
    /// reference of the argument since it was read. If there is an error, nothing is written.
    pub fn unflatten_result<L: Leaf + Clone, R: Pytree>(
        &self,
        leaves: Vec<L>,
        argument: &References,
    ) -> Result<R, TreeError> {
        self.whole.check_count(leaves.len())?;
        let outside = Outside {
            known: Some(argument),
            read: Some(argument),
            ..Outside::default()
        };
        let unflatten = |source: &mut Unflattener<'_>| {
            if self.written.is_empty() {
                return R::unflatten(source);
            }
            source.enter_fixed(&shape::TUPLE, 1 + self.written.len())?;
            let result = R::unflatten(source)?;
            for &position in &self.written {
                source.stage(argument, position)?;
            }
            Ok(result)
        };
        unflatten::build(&self.whole, leaves, outside, unflatten).map(|(result, _)| result)
    }

    /// Returns the structure of the result. If references were written, returns the structure of a tuple instead: the
    /// result and the written values.
    pub fn whole(&self) -> &TreeDef {
        &self.whole
    }
}
