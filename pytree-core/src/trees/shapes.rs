//! Compares the arrays of a value with the named axes of its modules, after the value was built or changed.
//!
//! Modules may be stacked: each module may have any number of leading axes. The leaves of dynamic trees are not
//! compared, because a tree with the structure of a model may hold anything for each array, for instance its norm or
//! its learning rate.

use std::ops::Range;

use crate::base::error::{ShapeError, TreeError};
use crate::contract::arena::Arena;
use crate::contract::flatten::{Flatten, Sharing, borrowing};
use crate::contract::pytree::Pytree;
use crate::node::leaf::Leaf;
use crate::treedef::{Stacking, TreeDef};

/// Compares all arrays of a value with the named axes of its modules.
///
/// # Errors
/// All arrays whose shapes do not match, with their key paths.
pub(crate) fn check<T: Pytree + ?Sized>(value: &T) -> Result<(), ShapeError> {
    let mut outcome = Ok(());
    flattened(value, |treedef, leaves, trees| {
        outcome = treedef.check_shapes(&|leaf| leaves[leaf], Stacking::Any, trees);
    });
    outcome
}

/// Compares a changed value, unless the value was wrong before the change. So a wrong value can be repaired step by
/// step.
///
/// # Errors
/// [`TreeError::Shapes`] with all arrays whose shapes do not match.
pub(crate) fn check_changed<B, A>(before: &B, after: &A) -> Result<(), TreeError>
where
    B: Pytree + ?Sized,
    A: Pytree + ?Sized,
{
    match check(after) {
        Err(error) if check(before).is_ok() => Err(error.into()),
        _ => Ok(()),
    }
}

/// Compares the leaves that a value is about to get, like [`check_changed`]. `treedef` has the nodes of the value, but
/// may have other static values.
///
/// # Errors
/// The errors of [`check_changed`].
pub(crate) fn check_change<T: Pytree, L: Leaf>(
    before: &T,
    treedef: &TreeDef,
    leaves: &[L],
) -> Result<(), TreeError> {
    let mut outcome = Ok(());
    flattened(before, |own, values, trees| {
        let after = treedef.check_shapes(&|leaf| &leaves[leaf], Stacking::Any, trees);
        let was_right = || {
            own.check_shapes(&|leaf| values[leaf], Stacking::Any, trees)
                .is_ok()
        };
        if let Err(error) = after
            && was_right()
        {
            outcome = Err(error.into());
        }
    });
    outcome
}

/// Flattens a value. `inspect` receives the treedef, the leaves and the positions of the nodes of dynamic trees.
fn flattened<T: Pytree + ?Sized>(
    value: &T,
    inspect: impl FnOnce(&TreeDef, &[&dyn Leaf], &[Range<usize>]),
) {
    let arena = Arena::default();
    let mut leaves: Vec<&dyn Leaf> = Vec::new();
    let (treedef, trees) = Flatten::new(Sharing::Preserve, borrowing(&mut leaves))
        .with_arena(&arena)
        .run_with_trees(value);
    inspect(&treedef, &leaves, &trees);
}
