//! Changes single leaves of a tree by path, and compares and merges trees by the paths of their leaves.

use std::collections::HashSet;
use std::ops::IndexMut;

use crate::base::error::TreeError;
use crate::base::path::{AsKeyPath, KeyPath};
use crate::trees::dynamic::Tree;
use crate::trees::partition::{Partition, merge_state_trees};

impl<L> Tree<L> {
    /// Returns the leaf at `path` mutably.
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    pub fn get_mut(&mut self, path: &(impl AsKeyPath + ?Sized)) -> Result<&mut L, TreeError> {
        let position = self.position(&*path.as_key_path()?)?;
        Ok(&mut self.leaves_mut()[position])
    }

    /// Sets the leaf at `path`, and returns the old leaf if it was present. An absent leaf becomes present.
    ///
    /// # Errors
    /// [`TreeError::NoLeaf`] if the structure has no leaf, present or absent, at `path`. If there is an error, nothing
    /// is changed.
    pub fn insert(
        &mut self,
        path: &(impl AsKeyPath + ?Sized),
        leaf: L,
    ) -> Result<Option<L>, TreeError> {
        let path = path.as_key_path()?;
        match self.position(&path) {
            Ok(position) => Ok(Some(std::mem::replace(
                &mut self.leaves_mut()[position],
                leaf,
            ))),
            Err(TreeError::InAnotherPart { .. }) => {
                self.set_presence(&path, true, |leaves, position| {
                    leaves.insert(position, leaf);
                });
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Removes and returns the leaf at `path`. Afterwards the leaf is absent.
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    pub fn remove(&mut self, path: &(impl AsKeyPath + ?Sized)) -> Result<L, TreeError> {
        let path = path.as_key_path()?;
        self.position(&path)?;
        let mut removed = None;
        self.set_presence(&path, false, |leaves, position| {
            removed = Some(leaves.remove(position));
        });
        removed.ok_or_else(|| TreeError::InAnotherPart {
            path: path.into_owned(),
        })
    }

    /// Makes the leaf at `path` present or absent. `change` adds or removes the leaf at its position among the leaves.
    fn set_presence(
        &mut self,
        path: &KeyPath,
        present: bool,
        change: impl FnOnce(&mut Vec<L>, usize),
    ) {
        let Some((at, position, _)) = self.treedef().place_at(path) else {
            return;
        };
        let mut place = 0;
        let treedef = self.treedef().with_presence(|now| {
            place += 1;
            if place - 1 == at { present } else { now }
        });
        let old = std::mem::replace(
            self,
            Self::from_parts(crate::treedef::TreeDef::none(), Vec::new()),
        );
        let (mut leaves, _) = old.into_parts();
        change(&mut leaves, position);
        *self = Self::from_parts(treedef, leaves);
    }

    /// Applies `function` to each leaf and its path, and returns a tree of the results.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::{Tree, tree};
    /// let tree: Tree<i32> = tree!({"a": 1, "b": 2}).cast()?;
    /// let shown = tree.map_with_path(|path, leaf| format!("{path} is {leaf}"));
    /// assert_eq!(shown.leaves(), ["['a'] is 1", "['b'] is 2"]);
    /// # Ok::<(), pytree_core::TreeError>(())
    /// ```
    pub fn map_with_path<U>(&self, mut function: impl FnMut(&KeyPath, &L) -> U) -> Tree<U> {
        let leaves = self.iter_with_path();
        let leaves = leaves.map(|(path, leaf)| function(&path, leaf)).collect();
        Tree::from_parts(self.treedef().clone(), leaves)
    }

    /// Returns the tree without the leaves whose paths also lead to a leaf in `other`. These leaves are absent in the
    /// result. `other` may have any structure.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::tree;
    /// let (four, three) = (tree!([1, 2, 3, 4]), tree!([5, 6, 7]));
    /// assert_eq!(four.without(&three).to_flat().len(), 1);
    /// assert_eq!(three.without(&four).to_flat().len(), 0);
    /// ```
    #[must_use]
    pub fn without<N>(&self, other: &Tree<N>) -> Self
    where
        L: Clone,
    {
        let others: HashSet<KeyPath> = other.treedef().leaf_paths().into_iter().collect();
        let paths = self.treedef().leaf_paths();
        let keep: Vec<bool> = paths.iter().map(|path| !others.contains(path)).collect();
        Self::select(self.treedef(), self.leaves(), |position| keep[position])
    }

    /// Merges trees of the same structure. Each leaf is taken from the last tree in which it is present.
    ///
    /// # Errors
    /// - [`TreeError::Structure`] with all differences if the structures differ.
    /// - [`TreeError::Build`] if there are no trees.
    pub fn merge_state(trees: impl IntoIterator<Item = Self>) -> Result<Self, TreeError> {
        merge_state_trees(trees.into_iter().collect())
    }
}

impl<M, L> Partition<M, L> {
    /// Returns the leaf at a path mutably.
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    pub fn get_mut(&mut self, path: &(impl AsKeyPath + ?Sized)) -> Result<&mut L, TreeError> {
        self.tree_mut().get_mut(path)
    }

    /// Sets the leaf at `path`, which may be the path of any leaf of the model. Returns the old leaf, if it was present
    /// in this part.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::{Filter, partition};
    /// let whole = vec![1.0_f32, 2.0];
    /// let mut part = partition::filter(&whole, &Filter::path("[0]"));
    /// assert_eq!(part.insert("[1]", 20.0)?, None);
    /// assert_eq!(part.remove("[0]")?, 1.0);
    /// assert_eq!(part.to_string(), "[-, 20.0]");
    /// # Ok::<(), pytree_core::TreeError>(())
    /// ```
    ///
    /// # Errors
    /// [`TreeError::NoLeaf`] if the structure of the model has no leaf at `path`. If there is an error, nothing is
    /// changed.
    pub fn insert(
        &mut self,
        path: &(impl AsKeyPath + ?Sized),
        leaf: L,
    ) -> Result<Option<L>, TreeError> {
        self.tree_mut().insert(path, leaf)
    }

    /// Removes the leaf at a path from this part.
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    pub fn remove(&mut self, path: &(impl AsKeyPath + ?Sized)) -> Result<L, TreeError> {
        self.tree_mut().remove(path)
    }

    /// Applies `function` to each leaf and its path.
    #[doc(alias = "nnx.map_state")]
    #[must_use]
    pub fn map_with_path<U>(&self, function: impl FnMut(&KeyPath, &L) -> U) -> Partition<M, U> {
        Partition::from_tree(self.tree().map_with_path(function))
    }

    /// Returns the part without the leaves whose paths also lead to a leaf in `other`. `other` may be a part of any
    /// model.
    #[doc(alias = "nnx.statelib.diff")]
    #[must_use]
    pub fn without<N, U>(&self, other: &Partition<N, U>) -> Self
    where
        L: Clone,
    {
        Self::from_tree(self.tree().without(other.tree()))
    }
}

impl<M, L> IndexMut<&str> for Partition<M, L> {
    /// Returns the leaf at a path mutably.
    ///
    /// # Panics
    /// If [`Partition::get_mut`] returns an error.
    #[track_caller]
    fn index_mut(&mut self, path: &str) -> &mut L {
        match self.get_mut(path) {
            Ok(leaf) => leaf,
            Err(error) => panic!("cannot index a part: {error}"),
        }
    }
}

impl<L> IndexMut<&str> for Tree<L> {
    /// Returns the leaf at a path mutably.
    ///
    /// # Panics
    /// If [`Tree::get_mut`] returns an error.
    #[track_caller]
    fn index_mut(&mut self, path: &str) -> &mut L {
        match self.get_mut(path) {
            Ok(leaf) => leaf,
            Err(error) => panic!("cannot index a tree: {error}"),
        }
    }
}
