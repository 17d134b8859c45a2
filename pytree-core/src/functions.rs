//! The functions on trees, in two families with the same names.
//!
//! [`tree`] visits a shared node at each of its places, as JAX does. [`graph`] visits it once and keeps the
//! sharing; transformations, partitions and checkpoints stand on it. Without shared nodes the two agree.

macro_rules! family {
    ($(#[$doc:meta])* $name:ident, $sharing:expr) => {
        $(#[$doc])*
        pub mod $name {
            use crate::error::TreeError;
            use crate::leaf::{AnyLeaf, Leaf};
            use crate::path::KeyPath;
            use crate::pytree::{Pytree, PytreeOf};
            use crate::dynamic::{Tree, same_structure};
            use crate::treedef::{Flatten, Sharing, TreeDef};

            const SHARING: Sharing = $sharing;

            /// The leaf as an `L`; the type of the tree promises that it is one, but for trait objects.
            #[track_caller]
            fn typed<L: Leaf>(leaf: &dyn Leaf) -> &L {
                // The upcast saves a virtual call; what is inside an `AnyLeaf` is found the other way.
                let direct: &dyn std::any::Any = leaf;
                match direct.downcast_ref().or_else(|| leaf.downcast_ref()) {
                    Some(leaf) => leaf,
                    None => panic!(
                        "cannot flatten: expected every leaf to be of type {}, found {}; a trait object or a tree of mixed leaves holds it",
                        crate::leaf::short_name(std::any::type_name::<L>()),
                        crate::leaf::short_name(leaf.type_name()),
                    ),
                }
            }

            /// The leaves, in order, by reference.
            ///
            /// # Panics
            /// If a trait object in the tree holds a leaf of another type.
            #[track_caller]
            pub fn leaves<L: Leaf + Clone, T: PytreeOf<L>>(tree: &T) -> Vec<&L> {
                let mut leaves = Vec::new();
                match SHARING {
                    Sharing::Duplicate => tree.visit(&mut LeavesOnly(|leaf| leaves.push(typed::<L>(leaf)))),
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
                Flatten::new(SHARING, |_| ()).run(tree)
            }

            /// The leaves, in order, and the structure.
            ///
            /// # Panics
            /// If a trait object in the tree holds a leaf of another type.
            #[track_caller]
            pub fn flatten<L: Leaf + Clone, T: PytreeOf<L>>(tree: &T) -> (Vec<L>, TreeDef) {
                let mut leaves = Vec::new();
                let treedef = Flatten::new(SHARING, |leaf| leaves.push(typed::<L>(leaf).clone())).run(tree);
                (leaves, treedef)
            }

            /// The leaves of whatever types, in order, and the structure.
            pub fn flatten_any<T: Pytree + ?Sized>(tree: &T) -> (Vec<AnyLeaf>, TreeDef) {
                let mut leaves = Vec::new();
                let treedef =
                    Flatten::new(SHARING, |leaf: &dyn Leaf| leaves.push(AnyLeaf::from_boxed(leaf.clone_boxed())))
                        .run(tree);
                (leaves, treedef)
            }

            /// Builds a value from a structure and its leaves.
            ///
            /// # Errors
            /// If there are too few or too many leaves, if the structure is of another type than `T`, or
            /// a leaf is of another type than its place.
            pub fn unflatten<T: Pytree, L: Leaf + Clone>(treedef: &TreeDef, leaves: Vec<L>) -> Result<T, TreeError> {
                crate::unflatten::unflatten(treedef, leaves)
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
                let mut leaves = Vec::new();
                let treedef = Flatten::new(SHARING, |leaf| leaves.push(function(typed::<L>(leaf)))).run(tree);
                rebuilt(crate::unflatten::unflatten_unchecked(&treedef, leaves.into_iter()))
            }

            /// The tree of what `function` makes of each leaf, which may be of any type.
            ///
            /// # Panics
            /// If a trait object in the tree holds a leaf of another type.
            #[track_caller]
            pub fn map_to<L: Leaf + Clone, T: PytreeOf<L>, U>(tree: &T, mut function: impl FnMut(&L) -> U) -> Tree<U> {
                let mut leaves = Vec::new();
                let treedef = Flatten::new(SHARING, |leaf| leaves.push(function(typed::<L>(leaf)))).run(tree);
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
                rebuilt(crate::unflatten::unflatten_unchecked(&treedef, leaves.into_iter()))
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
                let treedef = Flatten::new(SHARING, |leaf| left.push(typed::<L>(leaf))).run(tree);
                let mut right = Vec::new();
                let other_treedef = Flatten::new(SHARING, |leaf| right.push(typed::<M>(leaf))).run(other);
                same_structure("cannot map two trees together", &treedef, &other_treedef)?;
                let leaves = left.into_iter().zip(right).map(|(left, right)| function(left, right));
                crate::unflatten::unflatten_unchecked(&treedef, leaves)
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
                let mut right = Vec::new();
                let other_treedef = Flatten::new(SHARING, |leaf| right.push(leaf)).run(other);
                same_structure("cannot map two trees together", &treedef, &other_treedef)?;
                let leaves = left.into_iter().zip(right).map(|(left, right)| function(left, right));
                crate::unflatten::unflatten_unchecked(&treedef, leaves)
            }

            /// Combines all leaves into one value, from the first to the last.
            ///
            /// # Panics
            /// If a trait object in the tree holds a leaf of another type.
            #[track_caller]
            pub fn reduce<L: Leaf + Clone, T: PytreeOf<L>, A>(tree: &T, start: A, function: impl FnMut(A, &L) -> A) -> A {
                leaves::<L, T>(tree).into_iter().fold(start, function)
            }

            /// A tree that was just taken apart goes together again.
            #[track_caller]
            fn rebuilt<T>(outcome: Result<T, TreeError>) -> T {
                match outcome {
                    Ok(tree) => tree,
                    Err(error) => panic!("a tree does not go together again as it came apart: {error}; an impl of `Pytree` visits and unflattens differently"),
                }
            }

            struct LeavesOnly<F>(F);
            impl<'a, F: FnMut(&'a dyn Leaf)> crate::pytree::Visitor<'a> for LeavesOnly<F> {
                fn enter(&mut self, _: &'static crate::shape::NodeShape, _: usize) {}
                fn aux(&mut self, _: crate::statics::StaticRef<'a>) {}
                fn leaf(&mut self, leaf: &'a dyn Leaf) {
                    (self.0)(leaf);
                }
                fn exit(&mut self) {}
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
/// treedef: `None` if they differ.
pub fn match_structure<'a, L: crate::leaf::Leaf + Clone, T: crate::pytree::PytreeOf<L>>(
    tree: &'a T,
    treedef: &crate::treedef::TreeDef,
    leaves: &mut Vec<&'a L>,
) -> bool {
    let mut typed = true;
    let matches = crate::treedef::Match::new(treedef, |leaf: &'a dyn crate::leaf::Leaf| match leaf
        .downcast_ref::<L>()
    {
        Some(leaf) => leaves.push(leaf),
        None => typed = false,
    })
    .run(tree);
    matches && typed
}
