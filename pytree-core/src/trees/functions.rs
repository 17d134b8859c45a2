//! The functions on trees, in two families with the same names.
//!
//! [`tree`] visits a shared node at each of its places, as JAX does. [`graph`] visits it once and keeps the
//! sharing; transformations, partitions and checkpoints stand on it. Without shared nodes the two agree.

macro_rules! family {
    ($(#[$doc:meta])* $name:ident, $sharing:expr) => {
        $(#[$doc])*
        pub mod $name {
            use crate::base::error::TreeError;
            use crate::contract::kept::Kept;
            use crate::node::leaf::{AnyLeaf, Leaf};
            use crate::base::path::{Key, KeyPath};
            use crate::contract::pytree::{Pytree, PytreeOf, rebuilt, typed};
            use crate::trees::dynamic::{Subtree, Tree, same_structure};
            use crate::node::shape::NodeKind;
            use crate::contract::flatten::{Flatten, Sharing};
use crate::contract::matching::Match;
use crate::treedef::TreeDef;

            const SHARING: Sharing = $sharing;

            /// The leaves, in order, by reference.
            ///
            /// # Panics
            /// If a trait object in the tree holds a leaf of another type.
            #[track_caller]
            pub fn leaves<L: Leaf + Clone, T: PytreeOf<L>>(tree: &T) -> Vec<&L> {
                let mut leaves = Vec::new();
                match SHARING {
                    Sharing::Duplicate => tree.each_leaf(&mut |leaf| leaves.push(leaf)),
                    Sharing::Preserve => {
                        let _ = Flatten::new(SHARING, |leaf| leaves.push(typed::<L>(leaf))).run(tree);
                    }
                }
                leaves
            }

            /// The leaves, in order, of whatever types, by reference.
            pub fn any_leaves<T: Pytree + ?Sized>(tree: &T) -> Vec<&dyn Leaf> {
                let mut leaves = Vec::new();
                let _ = Flatten::new(SHARING, |leaf| leaves.push(leaf)).run(tree);
                leaves
            }

            /// The structure.
            pub fn structure<T: Pytree + ?Sized>(tree: &T) -> TreeDef {
                let kept = Kept::default();
                Flatten::new(SHARING, |_| ()).keeping(&kept).run(tree)
            }

            /// The leaves, in order, and the structure.
            ///
            /// # Panics
            /// If a trait object in the tree holds a leaf of another type.
            #[track_caller]
            pub fn flatten<L: Leaf + Clone, T: PytreeOf<L>>(tree: &T) -> (Vec<L>, TreeDef) {
                let mut leaves = Vec::new();
                let kept = Kept::default();
                let treedef = Flatten::new(SHARING, |leaf| leaves.push(typed::<L>(leaf).clone()))
                    .keeping(&kept)
                    .run(tree);
                (leaves, treedef)
            }

            /// The leaves of whatever types, in order, and the structure.
            pub fn flatten_any<T: Pytree + ?Sized>(tree: &T) -> (Vec<AnyLeaf>, TreeDef) {
                let mut leaves = Vec::new();
                let kept = Kept::default();
                let treedef =
                    Flatten::new(SHARING, |leaf: &dyn Leaf| leaves.push(AnyLeaf::from_boxed(leaf.clone_boxed())))
                        .keeping(&kept)
                        .run(tree);
                (leaves, treedef)
            }

            /// Builds a value from a structure and its leaves.
            ///
            /// # Errors
            /// If there are too few or too many leaves, if the structure is of another type than `T`, or
            /// a leaf is of another type than its place.
            pub fn unflatten<T: Pytree, L: Leaf + Clone>(treedef: &TreeDef, leaves: Vec<L>) -> Result<T, TreeError> {
                crate::contract::unflatten::unflatten(treedef, leaves)
            }

            /// The leaves with their paths, in order.
            ///
            /// # Panics
            /// If a trait object in the tree holds a leaf of another type.
            #[track_caller]
            pub fn leaves_with_path<L: Leaf + Clone, T: PytreeOf<L>>(tree: &T) -> Vec<(KeyPath, &L)> {
                let mut leaves = Vec::new();
                let treedef = Flatten::new(SHARING, |leaf| leaves.push(typed::<L>(leaf))).run(tree);
                treedef.leaf_paths().into_iter().zip(leaves).collect()
            }

            /// The value with each leaf replaced by what `function` makes of it.
            ///
            /// # Panics
            /// If a trait object in the tree holds a leaf of another type.
            #[track_caller]
            pub fn map<L: Leaf + Clone, T: PytreeOf<L>>(tree: &T, mut function: impl FnMut(&L) -> L) -> T {
                if SHARING == Sharing::Duplicate {
                    return tree.map_leaves(&mut function);
                }
                let mut leaves = Vec::new();
                let kept = Kept::default();
                let treedef = Flatten::new(SHARING, |leaf| leaves.push(function(typed::<L>(leaf))))
                    .keeping(&kept)
                    .run(tree);
                rebuilt(crate::contract::unflatten::unflatten_unchecked(&treedef, leaves.into_iter()))
            }

            /// The tree of what `function` makes of each leaf, which may be of any type.
            ///
            /// # Panics
            /// If a trait object in the tree holds a leaf of another type.
            #[track_caller]
            pub fn map_to<L: Leaf + Clone, T: PytreeOf<L>, U>(tree: &T, mut function: impl FnMut(&L) -> U) -> Tree<U> {
                let mut leaves = Vec::new();
                let kept = Kept::default();
                let treedef = Flatten::new(SHARING, |leaf| leaves.push(function(typed::<L>(leaf))))
                    .keeping(&kept)
                    .run(tree);
                Tree::from_parts(treedef, leaves)
            }

            /// The value with each leaf replaced by what `function` makes of its path and of it.
            ///
            /// # Panics
            /// If a trait object in the tree holds a leaf of another type.
            #[track_caller]
            pub fn map_with_path<L: Leaf + Clone, T: PytreeOf<L>>(
                tree: &T,
                mut function: impl FnMut(&KeyPath, &L) -> L,
            ) -> T {
                let (leaves, treedef) = flatten::<L, T>(tree);
                let leaves: Vec<L> =
                    treedef.leaf_paths().iter().zip(&leaves).map(|(path, leaf)| function(path, leaf)).collect();
                rebuilt(crate::contract::unflatten::unflatten_unchecked(&treedef, leaves.into_iter()))
            }

            /// The value with each leaf replaced by what `function` makes of it and of the leaf at the same
            /// place of `other`, whose leaves may be of another type.
            ///
            /// # Errors
            /// [`TreeError::Structure`] with all differences, if the structures differ.
            ///
            /// # Panics
            /// If a trait object in a tree holds a leaf of another type.
            #[track_caller]
            pub fn map2<L: Leaf + Clone, T: PytreeOf<L>, M: Leaf + Clone, U: PytreeOf<M>>(
                tree: &T,
                other: &U,
                mut function: impl FnMut(&L, &M) -> L,
            ) -> Result<T, TreeError> {
                let mut left = Vec::new();
                let kept = Kept::default();
                let treedef = Flatten::new(SHARING, |leaf| left.push(typed::<L>(leaf))).keeping(&kept).run(tree);
                let mut right = matching_leaves(&treedef, other, &kept)?.into_iter().map(typed::<M>);
                if SHARING == Sharing::Duplicate {
                    return Ok(tree.map_leaves(&mut |left| match right.next() {
                        Some(right) => function(left, right),
                        None => left.clone(),
                    }));
                }
                let leaves = left.into_iter().zip(right).map(|(left, right)| function(left, right));
                crate::contract::unflatten::unflatten_unchecked(&treedef, leaves)
            }

            /// The leaves of a tree that must have the structure of another.
            fn matching_leaves<'a, T: Pytree + ?Sized>(
                treedef: &TreeDef,
                tree: &'a T,
                kept: &'a Kept,
            ) -> Result<Vec<&'a dyn Leaf>, TreeError> {
                let mut leaves = Vec::with_capacity(treedef.num_leaves());
                if Match::new(treedef, SHARING, |leaf| leaves.push(leaf)).keeping(kept).run(tree) {
                    return Ok(leaves);
                }
                same_structure("cannot map two trees together", treedef, &structure(tree))?;
                Ok(kept_leaves(tree, kept))
            }

            /// The leaves, of whatever types, by reference; those behind references are kept.
            pub(crate) fn kept_leaves<'a, T: Pytree + ?Sized>(tree: &'a T, kept: &'a Kept) -> Vec<&'a dyn Leaf> {
                let mut leaves = Vec::new();
                let _ = Flatten::new(SHARING, |leaf| leaves.push(leaf)).keeping(kept).run(tree);
                leaves
            }

            /// As [`map2`], of trees whose leaves are of various types.
            ///
            /// # Errors
            /// [`TreeError::Structure`] with all differences, if the structures differ;
            /// [`TreeError::LeafTypes`] if `function` makes a leaf of another type than its place.
            pub fn map2_any<T: Pytree, U: Pytree + ?Sized>(
                tree: T,
                other: &U,
                mut function: impl FnMut(AnyLeaf, &dyn Leaf) -> AnyLeaf,
            ) -> Result<T, TreeError> {
                let (left, treedef) = flatten_any(&tree);
                drop(tree);
                let kept = Kept::default();
                let right = matching_leaves(&treedef, other, &kept)?;
                let leaves = left.into_iter().zip(right).map(|(left, right)| function(left, right));
                crate::contract::unflatten::unflatten_unchecked(&treedef, leaves)
                    .map_err(|error: TreeError| error.while_doing("cannot map two trees together"))
            }

            /// Combines all leaves into one value, from the first to the last.
            ///
            /// # Panics
            /// If a trait object in the tree holds a leaf of another type.
            #[track_caller]
            pub fn reduce<L: Leaf + Clone, T: PytreeOf<L>, A>(tree: &T, start: A, function: impl FnMut(A, &L) -> A) -> A {
                leaves::<L, T>(tree).into_iter().fold(start, function)
            }

            /// Combines all leaves by an associative function, halves by halves: see
            /// [`Tree::reduce_associative`]. `None` if there is no leaf.
            ///
            /// # Panics
            /// If a trait object in the tree holds a leaf of another type.
            #[track_caller]
            pub fn reduce_associative<L: Leaf + Clone, T: PytreeOf<L>>(
                tree: &T,
                function: impl FnMut(L, L) -> L,
            ) -> Option<L> {
                dynamic::<L, T>(tree).reduce_associative(function)
            }

            /// Whether `predicate` is true of all leaves; it is, if there is none.
            ///
            /// # Panics
            /// If a trait object in the tree holds a leaf of another type.
            #[track_caller]
            pub fn all<L: Leaf + Clone, T: PytreeOf<L>>(tree: &T, predicate: impl FnMut(&L) -> bool) -> bool {
                leaves::<L, T>(tree).into_iter().all(predicate)
            }

            /// Whether `predicate` is true of any leaf.
            ///
            /// # Panics
            /// If a trait object in the tree holds a leaf of another type.
            #[track_caller]
            pub fn any<L: Leaf + Clone, T: PytreeOf<L>>(tree: &T, predicate: impl FnMut(&L) -> bool) -> bool {
                leaves::<L, T>(tree).into_iter().any(predicate)
            }

            /// Whether each of the values is a leaf, and none has children.
            pub fn all_leaves<'a, T: Pytree>(values: impl IntoIterator<Item = &'a T>) -> bool {
                values.into_iter().all(|value| structure(value).kind() == NodeKind::Leaf)
            }

            /// The children of a value's root with their keys; `None` if it is a leaf: see
            /// [`Tree::flatten_one_level`].
            pub fn flatten_one_level<T: Pytree + ?Sized>(tree: &T) -> Option<Vec<(Option<Key>, Tree)>> {
                let (leaves, treedef) = flatten_any(tree);
                Tree::from_parts(treedef, leaves).flatten_one_level()
            }

            /// The subtrees for which `is_leaf` is true, and the leaves that are in none of them: see [`Tree::cut`].
            ///
            /// # Panics
            /// If a trait object in the tree holds a leaf of another type.
            #[track_caller]
            pub fn leaves_where<L: Leaf + Clone, T: PytreeOf<L>>(
                tree: &T,
                is_leaf: impl FnMut(&Subtree<'_, L>) -> bool,
            ) -> Vec<Tree<L>> {
                dynamic::<L, T>(tree).cut(is_leaf).into_parts().0
            }

            /// The tree of what `function` makes of each of the subtrees for which `is_leaf` is true, and of the
            /// leaves that are in none of them: see [`Tree::cut`].
            ///
            /// # Panics
            /// If a trait object in the tree holds a leaf of another type.
            #[track_caller]
            pub fn map_subtrees<L: Leaf + Clone, T: PytreeOf<L>, U>(
                tree: &T,
                is_leaf: impl FnMut(&Subtree<'_, L>) -> bool,
                function: impl FnMut(&Tree<L>) -> U,
            ) -> Tree<U> {
                dynamic::<L, T>(tree).cut(is_leaf).map(function)
            }

            /// The value turned inside out, as a value of the type `U`: see [`Tree::transpose`]. The
            /// arguments of a generic type are no part of a structure, so a `Vec<Metrics<f64>>` becomes a
            /// `Metrics<Vec<f64>>`, and that the former again.
            ///
            /// # Errors
            /// Those of [`Tree::transpose`], or if the transposed tree is not of the structure of `U`.
            ///
            /// # Panics
            /// If a trait object in the tree holds a leaf of another type.
            #[track_caller]
            pub fn transpose<T: PytreeOf<L>, U: Pytree, L: Leaf + Clone>(
                value: &T,
                outer: &TreeDef,
                inner: Option<&TreeDef>,
            ) -> Result<U, TreeError> {
                let transposed = dynamic::<L, T>(value).transpose(outer, inner)?;
                let (leaves, treedef) = transposed.into_parts();
                crate::contract::unflatten::unflatten(&treedef, leaves)
            }

            #[track_caller]
            fn dynamic<L: Leaf + Clone, T: PytreeOf<L>>(tree: &T) -> Tree<L> {
                let (leaves, treedef) = flatten::<L, T>(tree);
                Tree::from_parts(treedef, leaves)
            }
        }
    };
}

family! {
    /// Functions that visit a shared node at each of its places, as JAX's `jax.tree` does.
    tree, Sharing::Duplicate
}
family! {
    /// Functions that visit a shared node once and keep the sharing.
    graph, Sharing::Preserve
}

/// Compares a value with a stored treedef of the graph form, collecting its leaves, without building a
/// treedef: whether they are the same.
///
/// # Panics
/// If there is a reference in the value, whose leaves can't be borrowed; see
/// [`crossing::take_apart_as`](crate::references::crossing::take_apart_as).
pub fn match_structure<
    'a,
    L: crate::node::leaf::Leaf + Clone,
    T: crate::contract::pytree::PytreeOf<L>,
>(
    tree: &'a T,
    treedef: &crate::treedef::TreeDef,
    leaves: &mut Vec<&'a L>,
) -> bool {
    let mut typed = true;
    let matches = crate::contract::matching::Match::new(
        treedef,
        crate::contract::flatten::Sharing::Preserve,
        |leaf: &'a dyn crate::node::leaf::Leaf| match leaf.downcast_ref::<L>() {
            Some(leaf) => leaves.push(leaf),
            None => typed = false,
        },
    )
    .run(tree);
    matches && typed
}
