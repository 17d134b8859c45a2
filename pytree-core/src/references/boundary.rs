//! Moves values and their references across the boundary of a transformation.
//!
//! A transformation flattens its argument, replaces the leaves by traced leaves, and unflattens a copy of the argument
//! for the user's function. The result of the function moves outside in the same way. Each [`Ref`](crate::Ref) of the
//! argument, the outer reference, is represented by a new reference in the copy, the inner reference. A value that the
//! function writes to the inner reference is part of the outcome, and is written to the outer reference when the result
//! is unflattened. If the function returns an inner reference, the result contains the outer reference.
//!
//! All reads of the references of a call happen at one instant, and so do all writes. The writes happen only if the
//! references that were read are unchanged; otherwise the error is a [conflict](TreeError::is_conflict).

mod places;
mod visited;

use std::collections::HashSet;

pub use self::places::ReferencePlace;
pub use self::visited::Visited;
use crate::base::bug::expect_at;
use crate::base::error::TreeError;
use crate::contract::arena::Arena;
use crate::contract::flatten::{Flatten, Handles, Sharing};
use crate::contract::handles::References;
use crate::contract::matching::Match;
use crate::contract::obstacle::attempt;
use crate::contract::pytree::{Pytree, PytreeOf, rebuilt, typed};
pub use crate::contract::turn::{Attempts, repeated};
use crate::contract::unflatten::{self, Contents, Outside, Unflattener};
use crate::node::leaf::{AnyLeaf, Leaf};
use crate::node::shape;
use crate::treedef::{Builder, TreeDef};

/// Flattens a value as a graph and returns its leaves, its treedef and its references.
///
/// # Panics
/// If a trait object in the value holds a leaf of another type, or a reference may not be read here.
#[track_caller]
pub fn flatten_with_references<L: Leaf + Clone, T: PytreeOf<L>>(
    value: &T,
) -> (Vec<L>, TreeDef, References) {
    flatten_visited(&value)
}

/// Returns an error where [`flatten_with_references`] panics.
///
/// # Errors
/// [`TreeError::LeafType`] if a trait object in the value holds a leaf of another type; [`TreeError::Reference`] if a
/// reference may not be read here; [`TreeError::TooDeep`] if the value is nested too deep.
pub fn try_flatten_with_references<L: Leaf + Clone, T: PytreeOf<L>>(
    value: &T,
) -> Result<(Vec<L>, TreeDef, References), TreeError> {
    attempt(|| flatten_with_references(value))
}

/// Flattens an argument whose members may be borrowed from different memory locations; see [`flatten_with_references`].
/// If two members share a node, the node is visited once.
///
/// # Panics
/// If a trait object in the argument holds a leaf of another type, or a reference may not be read here.
#[track_caller]
pub fn flatten_visited<L: Leaf + Clone>(
    argument: &impl Visited<L>,
) -> (Vec<L>, TreeDef, References) {
    flatten_collecting(argument, Handles::All)
}

/// Flattens an argument and collects only the given handles; see [`flatten_visited`].
#[track_caller]
pub(crate) fn flatten_collecting<L: Leaf + Clone>(
    argument: &impl Visited<L>,
    handles: Handles,
) -> (Vec<L>, TreeDef, References) {
    at_one_instant(|| {
        let mut leaves = Vec::new();
        let arena = Arena::default();
        let mut flatten = Flatten::new(Sharing::Preserve, |leaf| {
            leaves.push(typed::<L>(leaf).clone());
        })
        .with_arena(&arena)
        .collecting(handles);
        argument.visit(&mut flatten);
        let references = flatten.take_references();
        let treedef = flatten.finish();
        let references = references.with_read(arena, &treedef);
        (leaves, treedef, references)
    })
}

/// Repeats the call of `read` until no other thread writes one of the references during the call.
fn at_one_instant<L>(
    read: impl Fn() -> (Vec<L>, TreeDef, References),
) -> (Vec<L>, TreeDef, References) {
    let mut attempts = Attempts::default();
    loop {
        let whole = read();
        if whole.2.outdated().is_none() {
            return whole;
        }
        attempts.conflicted();
    }
}

/// Flattens a value with leaves of any types; see [`flatten_with_references`].
///
/// # Panics
/// If a reference may not be read here.
#[track_caller]
pub fn flatten_any_with_references<T: Pytree + ?Sized>(
    value: &T,
) -> (Vec<AnyLeaf>, TreeDef, References) {
    flatten_any_collecting(value, Handles::All)
}

/// Flattens a value and collects only the given handles; see [`flatten_any_with_references`].
#[track_caller]
pub(crate) fn flatten_any_collecting<T: Pytree + ?Sized>(
    value: &T,
    handles: Handles,
) -> (Vec<AnyLeaf>, TreeDef, References) {
    at_one_instant(|| {
        let mut leaves = Vec::new();
        let arena = Arena::default();
        let mut flatten = Flatten::new(Sharing::Preserve, |leaf: &dyn Leaf| {
            leaves.push(AnyLeaf::from_boxed(leaf.clone_boxed()));
        })
        .with_arena(&arena)
        .collecting(handles);
        value.visit(&mut flatten);
        let references = flatten.take_references();
        let treedef = flatten.finish();
        let references = references.with_read(arena, &treedef);
        (leaves, treedef, references)
    })
}

/// Returns an error where [`flatten_any_with_references`] panics.
///
/// # Errors
/// [`TreeError::Reference`] if a reference may not be read here; [`TreeError::TooDeep`] if the value is nested too
/// deep.
pub fn try_flatten_any_with_references<T: Pytree + ?Sized>(
    value: &T,
) -> Result<(Vec<AnyLeaf>, TreeDef, References), TreeError> {
    attempt(|| flatten_any_with_references(value))
}

/// Returns the leaves of a value and its references, if the value has the structure of a stored graph treedef and
/// `accepts` its leaves.
///
/// This function builds no treedef. If another thread writes one of the references during the call, `accepts` may be
/// called again.
pub fn flatten_as<L: Leaf + Clone, T: PytreeOf<L>>(
    value: &T,
    treedef: &TreeDef,
    accepts: impl Fn(&[&L]) -> bool,
) -> Option<(Vec<L>, References)> {
    let choose = |position, leaves: &[&L]| accepts(leaves).then_some(position);
    let (_, leaves, references) = matched(&value, treedef, &|_| None, None, choose)?;
    Some((leaves, references))
}

/// Matches a value against several treedefs in one walk; see [`flatten_as`].
///
/// `first` has position 0, and `others` returns the other treedefs by position, from position 1. If `wanted` is given,
/// handles are collected only for the shared nodes whose numbers `wanted` lists. `choose` receives the position of the
/// matching treedef and the leaves; `matched` returns the result of `choose` with the leaves and references.
fn matched<'t, L: Leaf + Clone>(
    value: &impl Visited<L>,
    first: &'t TreeDef,
    others: &'t dyn Fn(usize) -> Option<&'t TreeDef>,
    wanted: Option<&'t [u32]>,
    choose: impl Fn(usize, &[&L]) -> Option<usize>,
) -> Option<(usize, Vec<L>, References)> {
    let mut attempts = Attempts::default();
    loop {
        let mut leaves: Vec<&L> = Vec::with_capacity(first.num_leaves());
        let mut are_typed = true;
        let arena = Arena::default();
        let mut matching = Match::new(first, Sharing::Preserve, |leaf| match leaf.downcast_ref() {
            Some(leaf) => leaves.push(leaf),
            None => are_typed = false,
        })
        .or(others)
        .with_arena(&arena);
        if let Some(wanted) = wanted {
            matching = matching.wanting(wanted);
        }
        let (references, position) = matching.run_visiting(|matching| value.visit(matching))?;
        if !are_typed {
            return None;
        }
        let chosen = choose(position, &leaves)?;
        let leaves = leaves.into_iter().cloned().collect();
        let treedef = match position {
            0 => first,
            _ => others(position)?,
        };
        let references = references.with_read(arena, treedef);
        if references.outdated().is_none() {
            return Some((chosen, leaves, references));
        }
        attempts.conflicted();
    }
}

/// Unflattens a value with new references, which belong to the current trace level.
///
/// # Errors
/// If there are too few or too many leaves, or if the treedef does not match `T`.
pub fn unflatten_with_new_references<L: Leaf + Clone, T: Pytree>(
    treedef: &TreeDef,
    leaves: Vec<L>,
) -> Result<(T, References), TreeError> {
    treedef.check_count(leaves.len())?;
    unflatten::build(
        treedef,
        leaves.into_iter(),
        Outside::default(),
        T::unflatten,
    )
}

/// Copies a value. The copy has the same references and shared nodes.
///
/// # Panics
/// If a trait object in the value holds a leaf of another type, a reference may not be read here, or an impl of
/// `Pytree` visits and unflattens differently.
#[track_caller]
pub fn copy<L: Leaf + Clone, T: PytreeOf<L>>(value: &T) -> T {
    let (leaves, treedef, references) = flatten_with_references::<L, T>(value);
    rebuilt(unflatten_with_references(
        &treedef,
        leaves,
        &references,
        Contents::Same,
    ))
}

/// Unflattens a value with the given references, in their order, instead of new references.
///
/// # Errors
/// If there are too few or too many leaves, if the treedef or a reference does not match `T`, or if a reference may not
/// be written here. A [conflict](TreeError::is_conflict) if a reference is to be written and another thread has written
/// one of the references since they were read. If there is an error, nothing is written.
pub fn unflatten_with_references<L: Leaf + Clone, T: Pytree>(
    treedef: &TreeDef,
    leaves: Vec<L>,
    references: &References,
    contents: Contents<'_>,
) -> Result<T, TreeError> {
    unflatten_part(treedef, leaves, (references, contents), references)
}

/// Unflattens a value that contains only some of the references in `read`; see [`unflatten_with_references`].
pub(crate) fn unflatten_part<L: Leaf + Clone, T: Pytree>(
    treedef: &TreeDef,
    leaves: Vec<L>,
    used: (&References, Contents<'_>),
    read: &References,
) -> Result<T, TreeError> {
    treedef.check_count(leaves.len())?;
    let outside = Outside {
        used: Some(used),
        read: Some(read),
        ..Outside::default()
    };
    unflatten::build(treedef, leaves.into_iter(), outside, T::unflatten).map(|(value, _)| value)
}

/// Unflattens a flattened value after some of its leaves have changed.
///
/// The value keeps its references. A reference is written if `is_changed` returns true for the position of one of the
/// leaves in the content of the reference.
///
/// # Errors
/// Returns the errors of [`unflatten_with_references`]. If there is an error, nothing is written.
pub fn unflatten_changed<L: Leaf + Clone, T: Pytree>(
    treedef: &TreeDef,
    leaves: Vec<L>,
    references: &References,
    mut is_changed: impl FnMut(usize) -> bool,
) -> Result<T, TreeError> {
    if references.is_empty() {
        return unflatten_with_new_references(treedef, leaves).map(|(value, _)| value);
    }
    let written: Vec<bool> = treedef
        .reference_leaves()
        .map(|mut leaves| leaves.any(&mut is_changed))
        .collect();
    unflatten_with_references(treedef, leaves, references, Contents::WrittenAt(&written))
}

/// Unflattens a flattened value after some of its static values have changed.
///
/// The value keeps its references. A reference is written if a static value in its content differs between `before` and
/// `after`.
///
/// # Errors
/// Returns the errors of [`unflatten_with_references`]. If there is an error, nothing is written.
pub fn unflatten_changed_statics<L: Leaf + Clone, T: Pytree>(
    before: &TreeDef,
    after: &TreeDef,
    leaves: Vec<L>,
    references: &References,
) -> Result<T, TreeError> {
    let written: Vec<bool> = before
        .reference_statics()
        .zip(after.reference_statics())
        .map(|(before, after)| before != after)
        .collect();
    unflatten_with_references(after, leaves, references, Contents::WrittenAt(&written))
}

/// Returns the shared nodes and references of the argument that are also in `treedef`, as sorted numbers.
fn returned(treedef: &TreeDef) -> Vec<u32> {
    let nodes = treedef.nodes();
    let mut numbers: Vec<u32> = nodes.filter_map(|node| node.number_in_argument()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// The outcome of a function, without leaves: the structure of its result, and the structures of the values that the
/// function wrote to the references of its argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The structure of the result or, if references were written, of a tuple of the result and the written values.
    whole: TreeDef,
    result: TreeDef,
    /// The positions of the written references among the references of the argument.
    written: Vec<usize>,
    /// The shared nodes and references of the argument that are also in the outcome, by their numbers in the argument.
    returned: Vec<u32>,
}

impl Outcome {
    /// Flattens the result of a function and the values of the written references. Returns the leaves of the result
    /// followed by the leaves of these values, and the outcome.
    ///
    /// `argument` contains the references of the argument; `written` lists the positions of the written references in
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
        let mut flatten = Flatten::new(Sharing::Preserve, |leaf| {
            leaves.push(typed::<L>(leaf).clone());
        })
        .with_arena(&arena)
        .knowing(argument);
        if written.is_empty() {
            let whole = flatten.run(result);
            let outcome = Self {
                result: whole.clone(),
                returned: returned(&whole),
                whole,
                written,
            };
            return (leaves, outcome);
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
        let whole = flatten.finish();
        let outcome = Self {
            result: whole.subtree(1),
            returned: returned(&whole),
            whole,
            written,
        };
        (leaves, outcome)
    }

    /// Flattens the argument of a function whose outcomes are known for some structures of the argument; see
    /// [`flatten_as`]. The members of the argument may be borrowed from different memory locations.
    ///
    /// For each position, `known` returns the structure of an argument, and an outcome. `choose` receives the position
    /// of a matching structure and the leaves, and returns the position of an outcome for this structure. This function
    /// returns the chosen position, the leaves and the references.
    ///
    /// The argument is walked once. It is walked twice if the chosen outcome needs handles of other shared nodes than
    /// the first outcome. Among structures that differ only in the targets of weak edges, only one is compared.
    ///
    /// Drops the handles of the shared nodes that the chosen outcome does not contain. A function that owns its
    /// argument may then reuse the memory of these nodes.
    pub fn flatten_argument<'t, L: Leaf + Clone>(
        argument: &impl Visited<L>,
        known: impl Fn(usize) -> Option<(&'t TreeDef, &'t Self)>,
        choose: impl Fn(usize, &[&L]) -> Option<usize>,
    ) -> Option<(usize, Vec<L>, References)> {
        let (treedef, outcome) = known(0)?;
        let others = |position| known(position).map(|(treedef, _)| treedef);
        let returned = outcome.returned.as_slice();
        let found = matched(argument, treedef, &others, Some(returned), &choose)?;
        if found.0 == 0 {
            return Some(found);
        }
        let (treedef, outcome) = known(found.0)?;
        if outcome.returned == returned {
            return Some(found);
        }
        // The chosen outcome needs handles that were not collected, so the argument is walked again.
        let again = |_, leaves: &[&L]| choose(found.0, leaves).filter(|&at| at == found.0);
        let returned = outcome.returned.as_slice();
        matched(argument, treedef, &|_| None, Some(returned), again)
    }

    /// Drops the handles of the argument's shared nodes that are not in the outcome. A function that owns its argument
    /// may then reuse the memory of these nodes.
    pub fn release(&self, argument: &mut References) {
        argument.release(|number| self.returned.binary_search(&number).is_ok());
    }

    /// Returns this outcome restricted to the references at the positions `written`, and the positions of the remaining
    /// leaves.
    ///
    /// The function must not have written the other references of the argument, so the values of these references
    /// contain only nodes of the argument.
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
        let whole = builder.finish();
        let only = Self {
            returned: returned(&whole),
            whole,
            result: self.result.clone(),
            written,
        };
        (only, leaves)
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

    /// Returns the structure of each written value, with the position of the reference to which it was written.
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
    /// If there are too few or too many leaves, if a structure does not match the type of its value, or if a reference
    /// may not be written here. A [conflict](TreeError::is_conflict) if a reference is to be written and another thread
    /// has written a reference of the argument since it was read. If there is an error, nothing is written.
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
        unflatten::build(&self.whole, leaves.into_iter(), outside, unflatten)
            .map(|(result, _)| result)
    }

    /// Returns the structure of the result or, if references were written, of a tuple of the result and the written
    /// values.
    pub fn whole(&self) -> &TreeDef {
        &self.whole
    }
}
