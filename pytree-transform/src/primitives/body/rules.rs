//! What the rules of all primitives that hold recorded functions share: how results, tangents, cotangents and batch axes
//! are put together from what a body gives.

use std::sync::Arc;

use crate::base::array::Array;
use crate::base::error::or_panic;
use crate::primitives::body::in_places;
use crate::tensor::Tensor;
use crate::tensor::primitive::{Batched, Cotangents, Linear, Outputs, Primitive, WithTangents};
use crate::tensor::trace::{bind, current_line};

/// The results of a primitive on tensors of whatever levels.
#[track_caller]
pub(crate) fn bind_all(primitive: &dyn Primitive, operands: &[Tensor]) -> Vec<Tensor> {
    let operands: Vec<&Tensor> = operands.iter().collect();
    or_panic(bind(primitive, &operands)).into_vec()
}

/// **Evaluation**: what a body gave, as results.
pub(crate) fn arrays(results: Vec<Arc<Array>>) -> Outputs<Array> {
    results.into_iter().map(Arc::unwrap_or_clone).collect()
}

/// **JVP**: results with the tangents of those that have one.
#[track_caller]
pub(crate) fn with_tangents(
    results: Vec<Tensor>,
    tangents: Vec<Tensor>,
    has_tangent: &[bool],
) -> WithTangents {
    (results.into(), in_places(tangents, has_tangent).into())
}

/// **JVP** of a body that gives the tangents behind the results.
#[track_caller]
pub(crate) fn tangents_behind(mut results: Vec<Tensor>, has_tangent: &[bool]) -> WithTangents {
    let tangents = results.split_off(has_tangent.len());
    with_tangents(results, tangents, has_tangent)
}

/// **Transpose**: the inputs of a transposed body are the known operands, and behind them the cotangents that there are.
pub(crate) fn known_and_cotangents(
    operands: &[Linear],
    cotangents: &[Option<Tensor>],
) -> Vec<Tensor> {
    operands
        .iter()
        .filter_map(|operand| match operand {
            Linear::Known(tensor) => Some(tensor.clone()),
            Linear::Unknown(_) => None,
        })
        .chain(cotangents.iter().flatten().cloned())
        .collect()
}

/// **Transpose**: the cotangents of the unknown operands, from those that a transposed body gives.
#[track_caller]
pub(crate) fn cotangents_of(
    results: Vec<Tensor>,
    has_cotangent: &[bool],
    unknown: &[bool],
) -> Cotangents {
    let of_unknown = in_places(results, has_cotangent);
    let of_operands = in_places(of_unknown, unknown).into_iter();
    of_operands.map(Option::flatten).collect()
}

/// **Batching**: results of which those are mapped over the axis in front for which the flag is set.
pub(crate) fn mapped_in_front(results: Vec<Tensor>, mapped: &[bool]) -> Batched {
    let axes = mapped.iter().map(|&mapped| mapped.then_some(0));
    (results.into(), axes.collect())
}

/// Refuses tangents where the user gave a rule for cotangents only.
pub(crate) fn no_forward_mode(operation: &str) -> ! {
    panic!(
        "cannot differentiate the {operation} at {} in forward mode: its rule gives cotangents only; use reverse mode (`grad`, `vjp`, `jacrev`), or give a rule for tangents by `custom_jvp`",
        current_line()
    )
}
