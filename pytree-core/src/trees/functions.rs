//! Implements the functions of [`tree`](mod@crate::tree) and [`graph`](crate::graph).
//!
//! The first argument of each function determines how shared nodes are visited. Each of the two modules passes a
//! constant. The functions that walk over a value return the obstacle that ends the walk as an error. The public
//! functions that return no error panic with [`passed`].

use std::any::Any;

use pytree_base::bug::bug;

use crate::base::error::TreeError;
use crate::base::path::{KeyPath, PathKey};
use crate::base::text::short_name;
use crate::contract::arena::Arena;
use crate::contract::flatten::{
    Flatten, Handles, Sharing, borrowing, borrowing_typed, cloning, mapping,
};
use crate::contract::matching::Match;
use crate::contract::obstacle::passed;
use crate::contract::pytree::{Pytree, PytreeOf, each_leaf, rebuilt, typed};
use crate::contract::recent;
use crate::contract::unflatten::unflatten_unchecked;
use crate::node::leaf::{AnyLeaf, Leaf};
use crate::node::shape::NodeKind;
use crate::references::boundary::{flatten_any_collecting, flatten_collecting};
use crate::treedef::TreeDef;
use crate::trees::dynamic::{Tree, same_but_for_some};

#[inline]
pub(crate) fn leaves<L: Leaf + Clone, T: PytreeOf<L>>(
    sharing: Sharing,
    tree: &T,
) -> Result<Vec<&L>, TreeError> {
    let mut leaves = Vec::new();
    if T::__is_plain() {
        tree.each_leaf(&mut |leaf| leaves.push(leaf));
        return Ok(leaves);
    }
    match sharing {
        Sharing::Duplicate => each_leaf(tree, borrowing_typed(&mut leaves))?,
        Sharing::Preserve => {
            Flatten::new(sharing, borrowing_typed(&mut leaves)).run(tree)?;
        }
    }
    Ok(leaves)
}

#[inline]
pub(crate) fn any_leaves<T: Pytree + ?Sized>(
    sharing: Sharing,
    tree: &T,
) -> Result<Vec<&dyn Leaf>, TreeError> {
    let mut leaves = Vec::new();
    Flatten::new(sharing, borrowing(&mut leaves)).run(tree)?;
    Ok(leaves)
}

#[inline]
pub(crate) fn structure<T: Pytree + ?Sized>(
    sharing: Sharing,
    tree: &T,
) -> Result<TreeDef, TreeError> {
    let arena = Arena::default();
    Flatten::structure(sharing).with_arena(&arena).run(tree)
}

/// Flattens a value without cloning its leaves. `arena` keeps the leaves behind references alive.
pub(crate) fn flatten_borrowed<'a, T: Pytree + ?Sized>(
    sharing: Sharing,
    tree: &'a T,
    arena: &'a Arena,
) -> Result<(Vec<&'a dyn Leaf>, TreeDef), TreeError> {
    let mut leaves = Vec::new();
    let treedef = Flatten::new(sharing, borrowing(&mut leaves))
        .with_arena(arena)
        .run(tree)?;
    Ok((leaves, treedef))
}

/// Flattens a value as a tree without cloning its leaves. If the value has a cycle or a weak edge with a target, it is
/// flattened as a graph. See [`flatten_borrowed`].
pub(crate) fn flatten_as_tree<'a, T: Pytree + ?Sized>(
    tree: &'a T,
    arena: &'a Arena,
) -> Result<(Vec<&'a dyn Leaf>, TreeDef), TreeError> {
    let (leaves, treedef) = flatten_borrowed(Sharing::Preserve, tree, arena)?;
    if treedef.has_aliases() && treedef.has_tree_form() {
        return flatten_borrowed(Sharing::Duplicate, tree, arena);
    }
    Ok((leaves, treedef))
}

/// Flattens a value, and replaces each leaf by the result of `function`.
#[inline]
fn flatten_mapped<L: Leaf + Clone, T: PytreeOf<L>, U>(
    sharing: Sharing,
    tree: &T,
    mut function: impl FnMut(&L) -> U,
) -> Result<(Vec<U>, TreeDef), TreeError> {
    if T::__is_plain() {
        let treedef = recent::structure(tree)?;
        let mut leaves = Vec::with_capacity(treedef.num_leaves());
        tree.each_leaf(&mut |leaf| leaves.push(function(leaf)));
        return Ok((leaves, treedef));
    }
    let mut leaves = Vec::new();
    let arena = Arena::default();
    let treedef = Flatten::new(sharing, mapping(&mut leaves, function))
        .with_arena(&arena)
        .run(tree)?;
    Ok((leaves, treedef))
}

#[inline]
pub(crate) fn flatten<L: Leaf + Clone, T: PytreeOf<L>>(
    sharing: Sharing,
    tree: &T,
) -> Result<(Vec<L>, TreeDef), TreeError> {
    if sharing == Sharing::Duplicate || T::__is_plain() {
        return flatten_mapped(sharing, tree, L::clone);
    }
    // All references are read at one instant.
    let (leaves, treedef, _) = flatten_collecting(&tree, Handles::References)?;
    Ok((leaves, treedef))
}

#[inline]
pub(crate) fn flatten_any<T: Pytree + ?Sized>(
    sharing: Sharing,
    tree: &T,
) -> Result<(Vec<AnyLeaf>, TreeDef), TreeError> {
    if sharing == Sharing::Preserve {
        let (leaves, treedef, _) = flatten_any_collecting(tree, Handles::References)?;
        return Ok((leaves, treedef));
    }
    let mut leaves = Vec::new();
    let arena = Arena::default();
    let treedef = Flatten::new(sharing, cloning(&mut leaves))
        .with_arena(&arena)
        .run(tree)?;
    Ok((leaves, treedef))
}

#[inline]
#[track_caller]
pub(crate) fn leaves_with_path<L: Leaf + Clone, T: PytreeOf<L>>(
    sharing: Sharing,
    tree: &T,
) -> Vec<(KeyPath, &L)> {
    let mut leaves = Vec::new();
    let treedef = passed(Flatten::new(sharing, borrowing_typed(&mut leaves)).run(tree));
    treedef.leaf_paths().into_iter().zip(leaves).collect()
}

#[inline]
#[track_caller]
pub(crate) fn map<L: Leaf + Clone, T: PytreeOf<L>>(
    sharing: Sharing,
    tree: &T,
    mut function: impl FnMut(&L) -> L,
) -> T {
    match sharing {
        Sharing::Duplicate => tree.map_leaves(&mut function),
        Sharing::Preserve => {
            let (leaves, treedef) = passed(flatten_mapped(sharing, tree, function));
            rebuilt(unflatten_unchecked(&treedef, leaves))
        }
    }
}

#[inline]
#[track_caller]
pub(crate) fn map_to<L: Leaf + Clone, T: PytreeOf<L>, U>(
    sharing: Sharing,
    tree: &T,
    function: impl FnMut(&L) -> U,
) -> Tree<U> {
    let (leaves, treedef) = passed(flatten_mapped(sharing, tree, function));
    Tree::from_parts(treedef, leaves)
}

#[inline]
#[track_caller]
pub(crate) fn map_with_path<L: Leaf + Clone, T: PytreeOf<L>>(
    sharing: Sharing,
    tree: &T,
    mut function: impl FnMut(&KeyPath, &L) -> L,
) -> T {
    let (leaves, treedef) = passed(flatten::<L, T>(sharing, tree));
    let paths = treedef.leaf_paths();
    let leaves = paths.iter().zip(&leaves);
    let mapped: Vec<L> = leaves.map(|(path, leaf)| function(path, leaf)).collect();
    rebuilt(unflatten_unchecked(&treedef, mapped))
}

#[inline]
#[track_caller]
pub(crate) fn map2<L: Leaf + Clone, T: PytreeOf<L>, M: Leaf + Clone, U: PytreeOf<M>>(
    sharing: Sharing,
    tree: &T,
    other: &U,
    mut function: impl FnMut(&L, &M) -> L,
) -> Result<T, TreeError> {
    let same_type: Option<&T> = (other as &dyn Any).downcast_ref();
    if sharing == Sharing::Duplicate
        && let Some(other) = same_type
        && let Some(right) = paired_leaves::<L, T>(tree, other)
    {
        let right = all_typed::<M>(right.into_iter().map(|leaf| leaf as &dyn Leaf))?;
        let (count, mut right) = (right.len(), right.into_iter());
        let mut visited = 0;
        let mapped = tree.map_leaves(&mut |left| {
            visited += 1;
            match right.next() {
                Some(right) => function(left, right),
                None => left.clone(),
            }
        });
        if visited != count {
            return Err(TreeError::OtherWalk {
                value: short_name(std::any::type_name::<T>()),
                paired: count,
                mapped: visited,
            });
        }
        return Ok(mapped);
    }
    let mut left = Vec::new();
    let arena = Arena::default();
    let treedef = Flatten::new(sharing, borrowing_typed(&mut left))
        .with_arena(&arena)
        .run(tree)?;
    let right = matching_leaves(sharing, &treedef, left.len(), other, &arena)?;
    // Checks the types of all leaves before the first call of `function`.
    let pairs = left.into_iter().zip(all_typed::<M>(right)?);
    let leaves = pairs.map(|(left, right)| function(left, right)).collect();
    unflatten_unchecked(&treedef, leaves)
}

/// Returns leaves as `M`s.
///
/// # Errors
/// If a leaf has another type.
fn all_typed<'a, M: Leaf>(
    leaves: impl IntoIterator<Item = &'a dyn Leaf>,
) -> Result<Vec<&'a M>, TreeError> {
    leaves.into_iter().map(typed).collect()
}

/// Returns the leaves of `right` if both values have the same structure. Returns `None` if the structures differ or
/// contain a type that does not implement [`PytreeOf::each_pair`].
fn paired_leaves<'a, L: Leaf + Clone, T: PytreeOf<L>>(
    left: &'a T,
    right: &'a T,
) -> Option<Vec<&'a L>> {
    let mut leaves = Vec::new();
    left.each_pair(right, &mut |_, leaf| leaves.push(leaf))
        .then_some(leaves)
}

#[inline]
#[track_caller]
pub(crate) fn map2_any<T: Pytree, U: Pytree + ?Sized>(
    sharing: Sharing,
    tree: T,
    other: &U,
    mut function: impl FnMut(AnyLeaf, &dyn Leaf) -> AnyLeaf,
) -> Result<T, TreeError> {
    let (left, treedef) = flatten_any(sharing, &tree)?;
    // Drops the old value, so that `function` can change a leaf without another owner in place.
    drop(tree);
    let arena = Arena::default();
    let right = matching_leaves(sharing, &treedef, left.len(), other, &arena)?;
    let pairs = left.into_iter().zip(right);
    let leaves = pairs.map(|(left, right)| function(left, right)).collect();
    unflatten_unchecked(&treedef, leaves)
        .map_err(|error: TreeError| error.while_doing("cannot map two trees together"))
}

/// Returns the leaves of a value, which must have the structure `treedef` with `count` leaves.
fn matching_leaves<'a, T: Pytree + ?Sized>(
    sharing: Sharing,
    treedef: &TreeDef,
    count: usize,
    tree: &'a T,
    arena: &'a Arena,
) -> Result<Vec<&'a dyn Leaf>, TreeError> {
    let mut leaves = Vec::with_capacity(count);
    let matches = Match::new(treedef, sharing, |leaf| leaves.push(leaf))
        .with_arena(arena)
        .run(tree);
    if !matches {
        // A failed match reports no differences, so the value is flattened to find them. If another thread has written
        // references since the match, the structures may now be equal. In this case, the leaves of this second walk are
        // used.
        let found;
        (leaves, found) = flatten_borrowed(sharing, tree, arena)?;
        same_but_for_some("cannot map two trees together", treedef, &found)?;
    }
    if leaves.len() != count {
        bug(format_args!(
            "{count} leaves in a tree of the structure {treedef}, found {}",
            leaves.len()
        ));
    }
    Ok(leaves)
}

#[inline]
#[track_caller]
pub(crate) fn all_leaves<'a, T: Pytree>(
    sharing: Sharing,
    values: impl IntoIterator<Item = &'a T>,
) -> bool {
    let is_leaf = |value| passed(structure(sharing, value)).kind() == NodeKind::Leaf;
    values.into_iter().all(is_leaf)
}

#[track_caller]
pub(crate) fn flatten_one_level<T: Pytree + ?Sized>(
    sharing: Sharing,
    tree: &T,
) -> Option<Vec<(Option<PathKey>, Tree)>> {
    let (leaves, treedef) = passed(flatten_any(sharing, tree));
    Tree::from_parts(treedef, leaves).flatten_one_level()
}

pub(crate) fn transpose<T: PytreeOf<L>, U: Pytree, L: Leaf + Clone>(
    sharing: Sharing,
    value: &T,
    outer: &TreeDef,
    inner: Option<&TreeDef>,
) -> Result<U, TreeError> {
    let (leaves, treedef) = flatten::<L, T>(sharing, value)?;
    let transposed = Tree::from_parts(treedef, leaves).transpose(outer, inner)?;
    let (leaves, treedef) = transposed.into_parts();
    crate::contract::unflatten::unflatten(&treedef, leaves)
}

/// Returns the value as a dynamic tree.
#[inline]
#[track_caller]
pub(crate) fn dynamic<L: Leaf + Clone, T: PytreeOf<L>>(sharing: Sharing, tree: &T) -> Tree<L> {
    let (leaves, treedef) = passed(flatten::<L, T>(sharing, tree));
    Tree::from_parts(treedef, leaves)
}

/// Compares a value with a stored graph treedef without building a treedef, and collects its leaves. Returns whether
/// the structures are equal. Returns false if the value contains a reference, whose leaves cannot be borrowed; see
/// [`boundary::flatten_as`](crate::references::boundary::flatten_as).
pub fn match_structure<'a, L: Leaf + Clone, T: PytreeOf<L>>(
    tree: &'a T,
    treedef: &TreeDef,
    leaves: &mut Vec<&'a L>,
) -> bool {
    let mut typed = true;
    let on_leaf = |leaf: &'a dyn Leaf| match leaf.downcast_ref::<L>() {
        Some(leaf) => leaves.push(leaf),
        None => typed = false,
    };
    let matches = Match::new(treedef, Sharing::Preserve, on_leaf).run(tree);
    matches && typed
}
