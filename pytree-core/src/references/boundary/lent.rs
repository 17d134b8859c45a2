//! Calls a function with a copy of a value that has other leaves, and stores what the function changes.

use std::collections::HashMap;

use super::{Outcome, ReferencePlace, unflatten_with_new_references};
use crate::base::error::TreeError;
use crate::base::path::KeyPath;
use crate::contract::handles::References;
use crate::contract::pytree::PytreeOf;
use crate::node::leaf::Leaf;
use crate::treedef::TreeDef;

/// Calls `function` with a copy of `value` that has the leaves `lent`, and then stores in `value` what the function has
/// changed. `treedef` and `references` are those of `value`.
///
/// References of `value` keep their identity, and are written only if the function has written them. Shared nodes keep their
/// identity unless the function has replaced them. `restore` returns the leaf to store for each leaf that the function
/// returns. It receives the position of this leaf in `value`, or `None` for a leaf at a new path. It is not called for leaves
/// in nodes that keep their values.
///
/// # Examples
/// ```
/// use pytree_core::boundary::{call_with_leaves, flatten_with_references};
/// let mut model = vec![1.0_f32, 2.0];
/// let (leaves, treedef, references) = flatten_with_references::<f32, _>(&model);
/// let doubled: Vec<f32> = leaves.iter().map(|leaf| leaf * 2.0).collect();
/// let sum = |model: &mut Vec<f32>| model.iter().sum::<f32>();
/// let before = |position: Option<usize>, leaf| position.map_or(leaf, |at| leaves[at]);
/// let sum = call_with_leaves(&mut model, (&treedef, &references), doubled, sum, before)?;
/// assert_eq!((sum, model), (6.0, vec![1.0, 2.0]));
/// # Ok::<(), pytree_core::TreeError>(())
/// ```
///
/// # Errors
/// [`TreeError`] if the type does not accept the leaves, if a reference may not be written here, or if another thread has
/// written a reference that was read. If there is an error, nothing is written.
pub fn call_with_leaves<L: Leaf + Clone, T: PytreeOf<L>, R>(
    value: &mut T,
    (treedef, references): (&TreeDef, &References),
    lent: Vec<L>,
    function: impl FnOnce(&mut T) -> R,
    mut restore: impl FnMut(Option<usize>, L) -> L,
) -> Result<R, TreeError> {
    let (mut copy, inner): (T, References) = unflatten_with_new_references(treedef, lent)?;
    let result = function(&mut copy);
    let (leaves, outcome) = Outcome::of::<L, T>(&copy, &inner, inner.written());
    drop(copy);
    let leaves = outcome.leaves_before(treedef).into_iter().zip(leaves);
    let leaves = leaves.map(|(before, leaf)| restore(before, leaf)).collect();
    *value = outcome.unflatten_result(leaves, references)?;
    Ok(result)
}

impl Outcome {
    /// For a function that returns its argument, returns the position that each leaf of the outcome had in the argument, or
    /// `None` for a leaf at a new path.
    fn leaves_before(&self, argument: &TreeDef) -> Vec<Option<usize>> {
        let whole = ReferencePlace {
            leaves: 0..argument.num_leaves(),
            value: argument.clone(),
            path: KeyPath::root(),
        };
        let mut positions = whole.leaves_at_paths_of(self.result());
        if self.writes() {
            let places = argument.references();
            for (position, value) in self.written() {
                positions.extend(places[position].leaves_at_paths_of(&value));
            }
        }
        positions
    }
}

impl ReferencePlace {
    /// Returns, for each leaf of `after`, the position of the old leaf at the same path, or `None` for a new path.
    fn leaves_at_paths_of(&self, after: &TreeDef) -> Vec<Option<usize>> {
        if let Some(positions) = self.leaves_of(after) {
            return positions.into_iter().map(Some).collect();
        }
        let paths = self.value.leaf_paths().into_iter();
        let positions: HashMap<KeyPath, usize> = paths.zip(self.leaves.clone()).collect();
        let after = after.leaf_paths();
        after
            .iter()
            .map(|path| positions.get(path).copied())
            .collect()
    }
}
