//! Pytrees of tensors: what transformations take and give.

use pytree_core::{PytreeOf, TreeDef, TreeError, graph};

use crate::tensor::Tensor;

/// A pytree all of whose leaves are tensors: what transformations take and give.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be traced: every leaf must be a `Tensor`",
    label = "holds leaves that are not tensors, or is no pytree",
    note = "change numbers and ndarray arrays to `Tensor`, or mark fields that are not data `#[r#static]`; \
            a type of your own becomes a pytree by `#[derive(Module)]` or `#[derive(Pytree)]`; \
            `jit` and `vmap` take their argument by value: write `|model: Model|`, not `|model: &Model|`"
)]
pub trait Traceable: PytreeOf<Tensor> {}

#[diagnostic::do_not_recommend]
impl<T: PytreeOf<Tensor>> Traceable for T {}

/// A value built from leaves of the same treedef it came from.
#[track_caller]
pub(crate) fn rebuild<T: Traceable>(treedef: &TreeDef, leaves: Vec<Tensor>) -> T {
    rebuilt(graph::unflatten(treedef, leaves))
}

/// What came apart and was put together again.
///
/// # Panics
/// If it was not put together.
#[track_caller]
pub(crate) fn rebuilt<T>(outcome: Result<T, TreeError>) -> T {
    match outcome {
        Ok(value) => value,
        Err(TreeError::Reference(error)) => panic!("{error}"),
        Err(error) => panic!(
            "a value does not go together again as it came apart: {error}; an impl of `Pytree` visits and unflattens differently"
        ),
    }
}
