//! Pytrees of tensors: the arguments and results of transformations.

use pytree_core::{PytreeOf, TreeDef, TreeError, graph, not_rebuilt};

use crate::tensor::handle::Tensor;

/// A pytree whose leaves are all tensors. Transformations take and return these pytrees.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be traced: every leaf must be a `Tensor`",
    label = "has leaves that are not tensors, or is not a pytree",
    note = "change numbers and ndarray arrays to `Tensor`, and write `#[r#static]` on fields that are not data",
    note = "to make your own type a pytree, write `#[derive(Module)]` or `#[derive(Pytree)]` on it",
    note = "`vmap` takes its argument by value: write `|model: Model|`, not `|model: &Model|`; for a function that writes its model, use `jit_mut` or `vmap_mut`"
)]
pub trait Traceable: PytreeOf<Tensor> {}

impl<T: PytreeOf<Tensor>> Traceable for T {}

/// Rebuilds a value from new leaves and the treedef that flattening returned.
#[track_caller]
pub(crate) fn rebuild<T: Traceable>(treedef: &TreeDef, leaves: Vec<Tensor>) -> T {
    rebuilt::<T, _>(graph::unflatten(treedef, leaves))
}

/// Returns the result of building a value of the type `V` again from its own nodes and leaves.
///
/// # Panics
/// Panics if unflattening returned an error.
#[track_caller]
pub(crate) fn rebuilt<V, T>(outcome: Result<T, TreeError>) -> T {
    match outcome {
        Ok(value) => value,
        Err(TreeError::Reference(error)) => panic!("{error}"),
        Err(problem) => panic!("{}", not_rebuilt::<V>(problem)),
    }
}
