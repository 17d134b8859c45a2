//! Compares the arrays of a value with the named axes of its modules, after the value was built or changed.
//!
//! Modules may be stacked: each module may have any number of leading axes. The leaves of dynamic trees are not
//! compared, because a tree with the structure of a model may hold anything for each array, for instance its norm or
//! its learning rate.

use std::ops::Range;

use crate::base::error::{ShapeError, TreeError};
use crate::contract::arena::Arena;
use crate::contract::flatten::{Flatten, Sharing, borrowing};
use crate::contract::obstacle::passed;
use crate::contract::pytree::Pytree;
use crate::node::leaf::Leaf;
use crate::treedef::{Stacking, TreeDef};

/// Compares all arrays of a value with the named axes of its modules.
///
/// # Errors
/// All arrays whose shapes do not match, with their key paths.
///
/// # Panics
/// If the value is nested too deep, or a reference may not be read here.
#[track_caller]
pub(crate) fn check<T: Pytree + ?Sized>(value: &T) -> Result<(), ShapeError> {
    passed(compared(value))
}

/// Compares like [`check`].
///
/// # Errors
/// The obstacle that ends the walk over the value.
fn compared<T: Pytree + ?Sized>(value: &T) -> Result<Result<(), ShapeError>, TreeError> {
    flattened(value, |treedef, leaves, trees| {
        treedef.check_shapes(&|leaf| leaves[leaf], Stacking::Any, trees)
    })
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
    match compared(after)? {
        Err(error) if compared(before)?.is_ok() => Err(error.into()),
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
    flattened(before, |own, values, trees| {
        let after = treedef.check_shapes(&|leaf| &leaves[leaf], Stacking::Any, trees);
        let was_right = || {
            own.check_shapes(&|leaf| values[leaf], Stacking::Any, trees)
                .is_ok()
        };
        match after {
            Err(error) if was_right() => Err(error.into()),
            _ => Ok(()),
        }
    })?
}

/// Flattens a value. `inspect` receives the treedef, the leaves and the positions of the nodes of dynamic trees.
///
/// # Errors
/// The obstacle that ends the walk.
fn flattened<T: Pytree + ?Sized, R>(
    value: &T,
    inspect: impl FnOnce(&TreeDef, &[&dyn Leaf], &[Range<usize>]) -> R,
) -> Result<R, TreeError> {
    let arena = Arena::default();
    let mut leaves: Vec<&dyn Leaf> = Vec::new();
    let (treedef, trees) = Flatten::new(Sharing::Preserve, borrowing(&mut leaves))
        .with_arena(&arena)
        .run_with_trees(value)?;
    Ok(inspect(&treedef, &leaves, &trees))
}
