//! Models whose leaves have several types, as trees of one leaf type.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use crate::base::error::TreeError;
use crate::contract::pytree::{Pytree, PytreeOf, Visitor};
use crate::contract::unflatten::Unflattener;
use crate::node::leaf::AnyLeaf;
use crate::trees::dynamic::Tree;
use crate::trees::graph;
use crate::trees::partition::Partition;
use crate::trees::select_part::SelectPart;

/// A model as a tree whose leaves are all [`AnyLeaf`]; see [`mixed`].
pub struct Mixed<M> {
    tree: Tree<AnyLeaf>,
    model: PhantomData<fn() -> M>,
}

/// Returns a model whose leaves may have several types as a tree with one leaf type, for all functions that need one: those of
/// [`tree`](mod@crate::tree), [`graph`], [`partition`](crate::partition), [`edit`](crate::edit) and [`select`](crate::select). The leaves are
/// clones, and shared nodes stay shared. [`Mixed::into_model`] is the way back.
///
/// # Panics
/// If the model cannot be flattened, as [`graph::flatten_any`].
///
/// # Examples
/// ```
/// use ndarray::{Array1, array};
/// use pytree_core::{AnyLeaf, Filter, Module, mixed, partition};
///
/// #[derive(Module, Clone, Debug, PartialEq)]
/// struct Counted {
///     #[param]
///     weight: Array1<f32>,
///     #[state]
///     steps: i64,
/// }
///
/// let model = Counted { weight: array![1.0, 2.0], steps: 3 };
/// let [params, rest] = partition::split(&mixed(&model), [Filter::param(), Filter::everything()])?;
/// assert_eq!(rest["steps"].downcast_ref(), Some(&3_i64));
/// let doubled = params.map(|leaf| match leaf.downcast_ref::<Array1<f32>>() {
///     Some(weight) => AnyLeaf::new(weight * 2.0),
///     None => leaf.clone(),
/// });
/// let model = partition::merge([doubled, rest])?.into_model()?;
/// assert_eq!(model, Counted { weight: array![2.0, 4.0], steps: 3 });
/// # Ok::<(), pytree_core::TreeError>(())
/// ```
#[track_caller]
pub fn mixed<M: Pytree>(model: &M) -> Mixed<M> {
    let (leaves, treedef) = graph::flatten_any(model);
    Mixed::from_tree(Tree::from_parts(treedef, leaves))
}

impl<M> Mixed<M> {
    fn from_tree(tree: Tree<AnyLeaf>) -> Self {
        Self {
            tree,
            model: PhantomData,
        }
    }
}

impl<M: Pytree> Mixed<M> {
    /// Builds the model from the leaves.
    ///
    /// # Errors
    /// [`TreeError`] if a leaf has another type than the model has there.
    pub fn into_model(self) -> Result<M, TreeError> {
        let (leaves, treedef) = self.tree.into_parts();
        graph::unflatten(&treedef, leaves)
    }
}

/// The methods of the tree.
impl<M> Deref for Mixed<M> {
    type Target = Tree<AnyLeaf>;

    fn deref(&self) -> &Tree<AnyLeaf> {
        &self.tree
    }
}

impl<M> Clone for Mixed<M> {
    fn clone(&self) -> Self {
        Self::from_tree(self.tree.clone())
    }
}

impl<M> PartialEq for Mixed<M> {
    fn eq(&self, other: &Self) -> bool {
        self.tree == other.tree
    }
}

impl<M> fmt::Debug for Mixed<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tree.fmt(f)
    }
}

impl<M: 'static> Pytree for Mixed<M> {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        self.tree.visit(visitor);
    }
    fn unflatten(source: &mut Unflattener<'_>) -> Result<Self, TreeError> {
        Tree::unflatten(source).map(Self::from_tree)
    }
}

impl<M: 'static> PytreeOf<AnyLeaf> for Mixed<M> {
    fn each_leaf<'a, F: FnMut(&'a AnyLeaf)>(&'a self, visit: &mut F) {
        self.tree.iter().for_each(visit);
    }
    fn map_leaves<F: FnMut(&AnyLeaf) -> AnyLeaf>(&self, function: &mut F) -> Self {
        Self::from_tree(self.tree.map(function))
    }
}

impl<M: 'static> SelectPart<AnyLeaf> for Mixed<M> {
    type Part = Partition<Self, AnyLeaf>;
    fn select_part(tree: Tree<AnyLeaf>) -> Result<Self::Part, TreeError> {
        Ok(Partition::from_tree(tree))
    }
}
