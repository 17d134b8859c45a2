//! Single places of a tree, and trees compared and laid over each other by their places.

use std::collections::HashSet;
use std::ops::IndexMut;

use crate::base::error::TreeError;
use crate::base::path::{AsKeyPath, KeyPath};
use crate::trees::dynamic::Tree;
use crate::trees::partition::{Partition, merge_state_trees};

impl<L> Tree<L> {
    /// The leaf at `path`, to be changed in place.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn get_mut(&mut self, path: &(impl AsKeyPath + ?Sized)) -> Result<&mut L, TreeError> {
        let position = self.position(&*path.as_key_path()?)?;
        Ok(&mut self.leaves_mut()[position])
    }

    /// Puts a leaf at a place of the structure, and gives back the one that was there, if it was not absent.
    ///
    /// # Errors
    /// [`TreeError::NoLeaf`] if there is no such place; nothing is changed.
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

    /// Takes the leaf at `path` out: the place is absent then.
    ///
    /// # Errors
    /// As [`get`](Self::get).
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

    /// Makes the place at `path`, which is there, present or absent, and changes the leaves at its position.
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

    /// The tree with each leaf replaced by what `function` makes of its path and of it.
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

    /// The tree without the leaves at whose paths `other`, a tree of any structure, has one, too: they are absent.
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

    /// Trees of one structure laid over each other: at each place the leaf of the last that has one.
    ///
    /// # Errors
    /// [`TreeError::Structure`] with all differences, if the structures differ; [`TreeError::Build`] if there is no
    /// tree.
    pub fn merge_state(trees: impl IntoIterator<Item = Self>) -> Result<Self, TreeError> {
        merge_state_trees(trees.into_iter().collect())
    }
}

impl<M, L> Partition<M, L> {
    /// The leaf at a path, to be changed in place.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn get_mut(&mut self, path: &(impl AsKeyPath + ?Sized)) -> Result<&mut L, TreeError> {
        self.tree_mut().get_mut(path)
    }

    /// Puts a leaf at a place of an `M`, and gives back the one that was in this part.
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
    /// [`TreeError::NoLeaf`] if an `M` of this structure has no such place; nothing is changed.
    pub fn insert(
        &mut self,
        path: &(impl AsKeyPath + ?Sized),
        leaf: L,
    ) -> Result<Option<L>, TreeError> {
        self.tree_mut().insert(path, leaf)
    }

    /// Takes the leaf at a path out of this part.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn remove(&mut self, path: &(impl AsKeyPath + ?Sized)) -> Result<L, TreeError> {
        self.tree_mut().remove(path)
    }

    /// The part with each leaf replaced by what `function` makes of its path and of it.
    #[must_use]
    pub fn map_with_path<U>(&self, function: impl FnMut(&KeyPath, &L) -> U) -> Partition<M, U> {
        Partition::from_tree(self.tree().map_with_path(function))
    }

    /// The part without the leaves at whose paths `other`, a part of any model, has one, too.
    #[must_use]
    pub fn without<N, U>(&self, other: &Partition<N, U>) -> Self
    where
        L: Clone,
    {
        Self::from_tree(self.tree().without(other.tree()))
    }
}

impl<M, L> IndexMut<&str> for Partition<M, L> {
    /// The leaf at a path.
    ///
    /// # Panics
    /// As [`Partition::get_mut`] fails.
    #[track_caller]
    fn index_mut(&mut self, path: &str) -> &mut L {
        match self.get_mut(path) {
            Ok(leaf) => leaf,
            Err(error) => panic!("cannot index a part: {error}"),
        }
    }
}

impl<L> IndexMut<&str> for Tree<L> {
    /// The leaf at a path.
    ///
    /// # Panics
    /// As [`Tree::get_mut`] fails.
    #[track_caller]
    fn index_mut(&mut self, path: &str) -> &mut L {
        match self.get_mut(path) {
            Ok(leaf) => leaf,
            Err(error) => panic!("cannot index a tree: {error}"),
        }
    }
}
