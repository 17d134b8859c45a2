//! Moves values and their references across the boundary of a transformation.
//!
//! A transformation flattens its argument, replaces the leaves by traced leaves, and unflattens a copy of the argument
//! for the user's function. The result of the function moves outside in the same way. Each [`Ref`](crate::Ref) of the
//! argument, the outer reference, is represented by a new reference in the copy, the inner reference. A value that the
//! function writes to the inner reference is part of the outcome, and is written to the outer reference when the result
//! is unflattened. If the function returns an inner reference, the result contains the outer reference.
//!
//! All reads of the references of a call happen at one instant, and so do all writes. The writes happen only if the
//! references that were read are unchanged. Otherwise, the call returns a [conflict](TreeError::is_conflict) error.

mod agreement;
mod lent;
mod outcome;
mod places;
mod visited;

pub use self::agreement::BranchLeaf;
pub use self::lent::call_with_leaves;
pub use self::outcome::Outcome;
pub use self::places::ReferencePlace;
pub use self::visited::Visited;
use pytree_derive::panicking_twin;

use crate::base::error::TreeError;
use crate::contract::arena::Arena;
use crate::contract::flatten::{Flatten, Handles, Sharing, borrowing, cloning, mapping};
use crate::contract::handles::References;
use crate::contract::matching::Match;
use crate::contract::obstacle::passed;
use crate::contract::pytree::{Pytree, PytreeOf, rebuilt};
pub use crate::contract::turn::{Attempts, repeated};
use crate::contract::unflatten::{self, Contents, Outside};
use crate::node::leaf::{AnyLeaf, Leaf};
use crate::node::shape::NodeKind;
use crate::treedef::TreeDef;

/// Flattens a value as a graph and returns its leaves, its treedef and its references.
///
/// # Examples
/// ```
/// use pytree_core::Ref;
/// use pytree_core::boundary::flatten_with_references;
/// let counter = Ref::new(1_u32);
/// let (leaves, treedef, references) = flatten_with_references::<u32, _>(&vec![counter.clone(), counter]);
/// assert_eq!((leaves, references.len()), (vec![1], 1));
/// ```
///
/// # Panics
/// If a trait object in the value holds a leaf of another type, or a reference may not be read here.
///
/// # Errors
/// - [`TreeError::LeafType`] if a trait object in the value holds a leaf of another type.
/// - [`TreeError::Reference`] if a reference may not be read here.
/// - [`TreeError::TooDeep`] if the value is nested too deep.
#[panicking_twin(flatten_with_references)]
pub fn try_flatten_with_references<L: Leaf + Clone, T: PytreeOf<L>>(
    value: &T,
) -> Result<(Vec<L>, TreeDef, References), TreeError> {
    flatten_collecting(&value, Handles::All)
}

/// Flattens an argument whose members may be borrowed from different memory locations; see [`flatten_with_references`].
/// If two members share a node, the node is visited once.
///
/// # Panics
/// If a trait object in the argument holds a leaf of another type, or a reference may not be read here.
#[track_caller]
pub fn flatten_visited<L: Leaf + Clone>(
    argument: &dyn Visited<L>,
) -> (Vec<L>, TreeDef, References) {
    passed(flatten_collecting(argument, Handles::All))
}

/// Flattens an argument and collects only the given handles; see [`flatten_visited`].
pub(crate) fn flatten_collecting<L: Leaf + Clone>(
    argument: &dyn Visited<L>,
    handles: Handles,
) -> Result<(Vec<L>, TreeDef, References), TreeError> {
    at_one_instant(|| {
        let mut leaves = Vec::new();
        let arena = Arena::default();
        let mut flatten = Flatten::new(Sharing::Preserve, mapping(&mut leaves, L::clone))
            .with_arena(&arena)
            .collecting(handles);
        argument.visit(&mut flatten);
        let references = flatten.take_references();
        let treedef = flatten.finish()?;
        let references = references.with_read(arena, &treedef);
        Ok((leaves, treedef, references))
    })
}

/// Repeats the call of `read` until no other thread writes one of the references during the call.
fn at_one_instant<L>(
    read: impl Fn() -> Result<(Vec<L>, TreeDef, References), TreeError>,
) -> Result<(Vec<L>, TreeDef, References), TreeError> {
    let mut attempts = Attempts::default();
    loop {
        let whole = read()?;
        if whole.2.outdated().is_none() {
            return Ok(whole);
        }
        attempts.conflicted();
    }
}

/// Flattens a value with leaves of any types; see [`flatten_with_references`].
///
/// # Panics
/// If a reference may not be read here.
///
/// # Errors
/// - [`TreeError::Reference`] if a reference may not be read here.
/// - [`TreeError::TooDeep`] if the value is nested too deep.
#[panicking_twin(flatten_any_with_references)]
pub fn try_flatten_any_with_references<T: Pytree + ?Sized>(
    value: &T,
) -> Result<(Vec<AnyLeaf>, TreeDef, References), TreeError> {
    flatten_any_collecting(value, Handles::All)
}

/// Flattens a value and collects only the given handles; see [`flatten_any_with_references`].
pub(crate) fn flatten_any_collecting<T: Pytree + ?Sized>(
    value: &T,
    handles: Handles,
) -> Result<(Vec<AnyLeaf>, TreeDef, References), TreeError> {
    at_one_instant(|| {
        let mut leaves = Vec::new();
        let arena = Arena::default();
        let mut flatten = Flatten::new(Sharing::Preserve, cloning(&mut leaves))
            .with_arena(&arena)
            .collecting(handles);
        value.visit(&mut flatten);
        let references = flatten.take_references();
        let treedef = flatten.finish()?;
        let references = references.with_read(arena, &treedef);
        Ok((leaves, treedef, references))
    })
}

/// Calls `function` with the leaves of a value, which it borrows, and the treedef of the value as a graph. All references are
/// read at one instant.
pub(crate) fn with_any_leaves(
    value: &dyn Pytree,
    function: &mut dyn FnMut(&[&dyn Leaf], &TreeDef),
) -> Result<(), TreeError> {
    let mut attempts = Attempts::default();
    loop {
        let mut leaves = Vec::new();
        let arena = Arena::default();
        let mut flatten = Flatten::new(Sharing::Preserve, borrowing(&mut leaves))
            .with_arena(&arena)
            .collecting(Handles::References);
        value.visit(&mut flatten);
        let references = flatten.take_references();
        let treedef = flatten.finish()?;
        if references
            .with_read(arena.clone(), &treedef)
            .outdated()
            .is_none()
        {
            function(&leaves, &treedef);
            return Ok(());
        }
        attempts.conflicted();
    }
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
    let (_, leaves, references) = matched(&value, treedef, &|_| None, None, &choose)?;
    Some((leaves, references))
}

/// Matches a value against several treedefs in one walk; see [`flatten_as`].
///
/// `first` has position 0, and `others` returns the other treedefs by position, from position 1. If `wanted` is given,
/// handles are collected only for the shared nodes whose indices `wanted` lists. `choose` receives the position of the
/// matching treedef and the leaves; `matched` returns the result of `choose` with the leaves and references.
fn matched<'t, L: Leaf + Clone>(
    value: &dyn Visited<L>,
    first: &'t TreeDef,
    others: &'t dyn Fn(usize) -> Option<&'t TreeDef>,
    wanted: Option<&'t [u32]>,
    choose: &dyn Fn(usize, &[&L]) -> Option<usize>,
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
    unflatten::build(treedef, leaves, Outside::default(), T::unflatten)
}

/// Copies a value. The leaves of the copy are clones. The references and shared nodes of the copy are those of `value`,
/// so a write to such a reference changes both.
///
/// # Panics
/// If a trait object in the value holds a leaf of another type, a reference may not be read here, or the visit and the
/// unflatten of an impl of `Pytree` do not agree.
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
/// Returns an error if:
/// - there are too few or too many leaves
/// - the treedef or a reference does not match `T`
/// - a reference may not be written here
///
/// Returns a [conflict](TreeError::is_conflict) if a reference is to be written and another thread has written one of
/// the references since they were read. If there is an error, nothing is written.
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
    unflatten::build(treedef, leaves, outside, T::unflatten).map(|(value, _)| value)
}

/// Unflattens a flattened value after some of its leaves have changed.
///
/// `is_changed` receives the position of a leaf. The value keeps its references, and a reference is written if its content
/// has changed. The value also keeps the shared nodes whose values have not changed, so they are still shared with values
/// outside. A changed shared node is replaced by a new node at all its paths in the value, and values outside keep the old
/// node.
///
/// # Examples
/// ```
/// use pytree_core::Ref;
/// use pytree_core::boundary::{flatten_with_references, unflatten_changed};
/// let pair = vec![Ref::new(1_u32), Ref::new(2)];
/// let (_, treedef, references) = flatten_with_references::<u32, _>(&pair);
/// let same: Vec<Ref<u32>> = unflatten_changed(&treedef, vec![7_u32, 2], &references, |leaf| leaf == 0)?;
/// assert!(pair[0].get() == 7 && same[0].same(&pair[0]));
/// # Ok::<(), pytree_core::TreeError>(())
/// ```
///
/// # Errors
/// Returns the errors of [`graph::unflatten`](crate::graph::unflatten). If there is an error, nothing is written.
pub fn unflatten_changed<L: Leaf + Clone, T: Pytree>(
    treedef: &TreeDef,
    leaves: Vec<L>,
    references: &References,
    mut is_changed: impl FnMut(usize) -> bool,
) -> Result<T, TreeError> {
    let mut leaf = 0;
    let written = treedef.numbered_changes(|node| {
        let is_leaf = node.kind() == NodeKind::Leaf;
        leaf += usize::from(is_leaf);
        is_leaf && is_changed(leaf - 1)
    });
    unflatten_with_references(treedef, leaves, references, Contents::WrittenAt(&written))
}
