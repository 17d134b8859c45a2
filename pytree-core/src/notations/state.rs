//! States: trees as nested dictionaries of variables, as in Flax NNX.
//!
//! A variable is a field that determines the kind of the leaves below it. A state contains no absent leaves, no values
//! without leaves and no later occurrences of shared nodes. [`StateDisplay`] displays a state. The submodules convert a
//! tree to a flat list or to pure dictionaries and back, and change single leaves of a tree.

mod flat;
mod places;
mod pure;
mod write;

use std::fmt;

use crate::node::leaf::Leaf;
use crate::trees::dynamic::Tree;
use crate::trees::partition::Partition;

/// A tree displayed as a state of Flax NNX; [`Tree::state`] and [`Partition::state`] return it.
#[derive(Clone, Copy, Debug)]
pub struct StateDisplay<'t, L> {
    tree: &'t Tree<L>,
}

impl<L> Tree<L> {
    /// Returns the tree as a state, which is displayed as in Flax NNX: nested dictionaries in which each variable has
    /// its kind, the number of its elements and their size.
    ///
    /// Fields and keys are displayed as strings, and positions in lists and tuples as integers. A variable with several
    /// leaves is displayed as a [`Tree`]. A leaf without a kind is displayed without a variable around it. The metadata
    /// of an [`Annotated`](crate::Annotated) variable is displayed after its value.
    ///
    /// # Examples
    /// ```
    /// use pytree_core::tree;
    /// let tree = tree!({"layers": [{"rate": 0.5}, None], "name": "mlp"});
    /// assert_eq!(
    ///     tree.state().to_string(),
    ///     "\
    /// State({
    ///   'layers': {
    ///     0: {
    ///       'rate': 0.5
    ///     }
    ///   },
    ///   'name': 'mlp'
    /// })",
    /// );
    /// ```
    pub fn state(&self) -> StateDisplay<'_, L> {
        StateDisplay { tree: self }
    }
}

impl<M, L> Partition<M, L> {
    /// Returns the part as a state, which is displayed as in Flax NNX; see [`Tree::state`].
    ///
    /// # Examples
    /// ```
    /// use ndarray::{Array1, array};
    /// use pytree_core::kind::BatchStat;
    /// use pytree_core::{Filter, Module, partition};
    ///
    /// #[derive(Module)]
    /// struct Norm {
    ///     #[param]
    ///     scale: Array1<f32>,
    ///     #[state(BatchStat)]
    ///     mean: Array1<f32>,
    /// }
    ///
    /// let norms = vec![Norm { scale: array![1.5, 2.0, 3.0], mean: array![0.0, 0.0, 0.0] }];
    /// let params = partition::filter(&norms, &Filter::param());
    /// assert_eq!(
    ///     params.state().to_string(),
    ///     "\
    /// State({
    ///   0: {
    ///     'scale': Param( # 3 (12 B)
    ///       value=[1.5, 2.0, 3.0]
    ///     )
    ///   }
    /// })",
    /// );
    /// ```
    #[doc(alias = "nnx.State")]
    pub fn state(&self) -> StateDisplay<'_, L> {
        self.tree().state()
    }
}

impl<L: Leaf> fmt::Display for StateDisplay<'_, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write::write_state(self.tree, f)
    }
}
