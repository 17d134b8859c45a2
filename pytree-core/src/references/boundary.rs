//! Values that cross the border of a transformation, with their references.
//!
//! A transformation takes its argument apart outside, puts it together again inside with leaves of its own, and does
//! the same the other way round with the result. A [`Ref`](crate::Ref) in the argument has one inside that stands for it.
//! What is written to that is part of what comes out, and is written to the one outside when the result is put together.
//! In the result, a reference of the argument is itself again.
//!
//! What is read of several references was there at one instant, and so is what is written. It is written only if the
//! references that were read still hold what was read; else the error is a [conflict](TreeError::is_conflict).

mod places;

use std::collections::HashSet;

pub use self::places::ReferencePlace;
use crate::base::bug::expect_at;
use crate::base::error::TreeError;
use crate::contract::arena::Arena;
use crate::contract::flatten::{Flatten, Sharing};
use crate::contract::handles::References;
use crate::contract::matching::Match;
use crate::contract::pytree::{Pytree, PytreeOf, rebuilt, typed};
pub use crate::contract::turn::{Attempts, repeated};
use crate::contract::unflatten::{self, Contents, Outside, Unflattener};
use crate::node::leaf::{AnyLeaf, Leaf};
use crate::node::shape;
use crate::treedef::{Builder, TreeDef};

/// A value taken apart, and its references.
///
/// # Panics
/// If a trait object in the value holds a leaf of another type, or a reference may not be read here.
#[track_caller]
pub fn flatten_with_references<L: Leaf + Clone, T: PytreeOf<L>>(
    value: &T,
) -> (Vec<L>, TreeDef, References) {
    at_one_instant(|| {
        let mut leaves = Vec::new();
        let arena = Arena::default();
        let (treedef, references) = Flatten::new(Sharing::Preserve, |leaf| {
            leaves.push(typed::<L>(leaf).clone());
        })
        .with_arena(&arena)
        .run_with_references(value);
        let references = references.with_read(arena, &treedef);
        (leaves, treedef, references)
    })
}

/// What was taken apart, once none of its references was written while it was read.
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

/// As [`flatten_with_references`], of a value whose leaves are of whatever types.
///
/// # Panics
/// If a reference may not be read here.
#[track_caller]
pub fn flatten_any_with_references<T: Pytree + ?Sized>(
    value: &T,
) -> (Vec<AnyLeaf>, TreeDef, References) {
    at_one_instant(|| {
        let mut leaves = Vec::new();
        let arena = Arena::default();
        let (treedef, references) = Flatten::new(Sharing::Preserve, |leaf: &dyn Leaf| {
            leaves.push(AnyLeaf::from_boxed(leaf.clone_boxed()));
        })
        .with_arena(&arena)
        .run_with_references(value);
        let references = references.with_read(arena, &treedef);
        (leaves, treedef, references)
    })
}

/// The leaves of a value and its references, if it has the structure of a stored treedef of the graph form and
/// `accepts` its leaves. No treedef is built. It may ask more than once, if another thread writes meanwhile.
pub fn flatten_as<L: Leaf + Clone, T: PytreeOf<L>>(
    value: &T,
    treedef: &TreeDef,
    accepts: impl Fn(&[&L]) -> bool,
) -> Option<(Vec<L>, References)> {
    let choose = |position, leaves: &[&L]| accepts(leaves).then_some(position);
    let (_, leaves, references) = matched(value, treedef, &|_| None, None, choose)?;
    Some((leaves, references))
}

/// As [`flatten_as`] with one of several treedefs, `first` or one of the others, whose positions begin at 1; with
/// handles of the shared nodes of some numbers only. `choose` gets the position of the treedef that the value has, and
/// what it chooses is given.
fn matched<'t, L: Leaf + Clone, T: PytreeOf<L>>(
    value: &T,
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
        let (references, position) = matching.run_with_references(value)?;
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

/// A value put together, with references of its own, which belong to the trace level of the code that calls.
///
/// # Errors
/// If there are too few or too many leaves, or the treedef is of another type.
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

/// Two values taken apart together, so that what they share is known: the structure is that of a tuple of them.
///
/// # Panics
/// As [`flatten_with_references`].
#[track_caller]
pub fn flatten_both<L: Leaf + Clone, T: PytreeOf<L>, U: PytreeOf<L>>(
    first: &T,
    second: &U,
) -> (Vec<L>, TreeDef, References) {
    at_one_instant(|| {
        let mut leaves = Vec::new();
        let arena = Arena::default();
        let mut flatten = Flatten::new(Sharing::Preserve, |leaf| {
            leaves.push(typed::<L>(leaf).clone());
        })
        .with_arena(&arena)
        .collecting();
        flatten.visit_tuple(2, |position, flatten| match position {
            0 => first.visit(flatten),
            _ => second.visit(flatten),
        });
        let references = flatten.take_references();
        let treedef = flatten.finish();
        let references = references.with_read(arena, &treedef);
        (leaves, treedef, references)
    })
}

/// A copy of a value with the same references and shared nodes.
///
/// # Panics
/// As [`flatten_with_references`], or if an impl of `Pytree` visits and unflattens differently.
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

/// A value put together in which the references are those given, in the order in which they are met.
///
/// # Errors
/// As [`unflatten_with_new_references`], or if a reference holds another type or may not be written here; a
/// [conflict](TreeError::is_conflict) if something is written and another thread has written one of the references
/// since they were read. Then nothing is written.
pub fn unflatten_with_references<L: Leaf + Clone, T: Pytree>(
    treedef: &TreeDef,
    leaves: Vec<L>,
    references: &References,
    contents: Contents<'_>,
) -> Result<T, TreeError> {
    unflatten_part(treedef, leaves, (references, contents), references)
}

/// As [`unflatten_with_references`], with the references that are left of those that were `read`.
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

/// A value that was taken apart, put together again with leaves of which some have changed: it has the same references,
/// and those that hold a leaf that `is_changed` names by its position are written.
///
/// # Errors
/// As [`unflatten_with_references`]; then nothing is written.
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

/// A value that was taken apart, put together again with other static values: it has the same references, and those
/// in which a static value has changed are written.
///
/// # Errors
/// As [`unflatten_with_references`]; then nothing is written.
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

/// The nodes of the argument that a structure has, by their numbers in order.
fn returned(treedef: &TreeDef) -> Vec<u32> {
    let nodes = treedef.nodes();
    let mut numbers: Vec<u32> = nodes.filter_map(|node| node.number_in_argument()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// What comes out of a function besides the leaves: the structure of its result, and of what was written to the
/// references of its argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// That of the result alone or, if something was written, of a tuple of it and the values written.
    whole: TreeDef,
    result: TreeDef,
    /// The references that were written, by their positions among those of the argument.
    written: Vec<usize>,
    /// The nodes of the argument that are in the result again, by their numbers.
    returned: Vec<u32>,
}

impl Outcome {
    /// What comes out of a function whose argument has the references given: the leaves of its result, then those of
    /// the values of the references listed, and their structure.
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
                    let expected = "positions of references of the argument in `written`";
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

    /// As [`flatten_as`], of the argument of a function that has an outcome for each of several structures:
    /// `known` gives them by their positions. The argument is walked once, whichever it has; of structures that differ only in
    /// where weak edges lead, one is compared. `choose` gets the position
    /// of a structure that it has, and its leaves, and chooses an outcome for this structure by its position, which is
    /// given. Shared nodes that are not in this outcome's result again are let go, so that a function that was given its
    /// argument may use their memory.
    pub fn flatten_argument<'t, L: Leaf + Clone, T: PytreeOf<L>>(
        argument: &T,
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
        // Handles of other nodes are needed.
        let again = |_, leaves: &[&L]| choose(found.0, leaves).filter(|&at| at == found.0);
        let returned = outcome.returned.as_slice();
        matched(argument, treedef, &|_| None, Some(returned), again)
    }

    /// Lets go of the shared nodes of the argument that are not in the result again: then a function that was given
    /// its argument may use their memory.
    pub fn release(&self, argument: &mut References) {
        argument.release(|number| self.returned.binary_search(&number).is_ok());
    }

    /// The same without what references other than those listed hold, and which of its leaves are left. What it leaves
    /// out must not have been written: so there is nothing in it that the argument does not have.
    #[must_use]
    pub fn only(&self, written: &[usize]) -> (Self, Vec<usize>) {
        if self.written.is_empty() {
            return (self.clone(), (0..self.whole.num_leaves()).collect());
        }
        // As many as the argument has references: each is looked up in one step.
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

    /// Whether references of the argument are written.
    pub fn writes(&self) -> bool {
        !self.written.is_empty()
    }

    /// The structure of the result alone.
    pub fn result(&self) -> &TreeDef {
        &self.result
    }

    /// The structures of the values that were written, each with the position of its reference.
    pub fn written(&self) -> impl Iterator<Item = (usize, TreeDef)> {
        let values = self.whole.children().into_iter().skip(1);
        self.written.iter().copied().zip(values)
    }

    /// The number of all leaves.
    pub fn num_leaves(&self) -> usize {
        self.whole.num_leaves()
    }

    /// The result put together, in which the references of the argument are those given; what was written is written
    /// to them.
    ///
    /// # Errors
    /// If there are too few or too many leaves, a structure is of another type, or a reference may not be written
    /// here; a [conflict](TreeError::is_conflict) if something is written and another thread has written a reference of
    /// the argument since it was read. Then nothing is written.
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

    /// The structure of the result or, if references were written, of a tuple of it and the values written.
    pub fn whole(&self) -> &TreeDef {
        &self.whole
    }
}
