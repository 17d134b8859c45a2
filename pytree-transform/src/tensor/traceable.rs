//! Pytrees of tensors: the arguments and results of transformations.

use pytree_core::{PytreeOf, TreeDef, TreeError, graph};

use crate::tensor::Tensor;

/// A pytree whose leaves are all tensors. Transformations take and return such values.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be traced: it must be a value, moved or cloned and not a reference, and every leaf must be a `Tensor`",
    label = "has leaves that are not tensors, is a reference, or is not a pytree",
    note = "change numbers and ndarray arrays to `Tensor`, for example a step counter to `Tensor::from(0)`; \
            a number that never changes can be `#[r#static]`, where each new value is traced anew; \
            a type of your own becomes a pytree by `#[derive(Module)]` or `#[derive(Pytree)]`",
    note = "`jit` and `vmap` take their argument by value: write `|model: Model|`, not `|model: &Model|`; \
            a function that writes its model is for `jit_mut` and `vmap_mut`"
)]
pub trait Traceable: PytreeOf<Tensor> {}

impl<T: PytreeOf<Tensor>> Traceable for T {}

/// Rebuilds a value of the treedef that flattening returned, from new leaves.
#[track_caller]
pub(crate) fn rebuild<T: Traceable>(treedef: &TreeDef, leaves: Vec<Tensor>) -> T {
    rebuilt(graph::unflatten(treedef, leaves))
}

/// Returns the value that unflattening returned.
///
/// # Panics
/// Panics if unflattening returned an error.
#[track_caller]
pub(crate) fn rebuilt<T>(outcome: Result<T, TreeError>) -> T {
    match outcome {
        Ok(value) => value,
        Err(TreeError::Reference(error)) => panic!("{error}"),
        Err(error) => panic!(
            "cannot unflatten a value that was flattened: {error}; make `visit` and `unflatten` of the `Pytree` impl agree"
        ),
    }
}
