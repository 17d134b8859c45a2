//! Code shared by the rules of primitives that hold recorded functions. This code assembles results, tangents,
//! cotangents and batch axes from the results of a body.

use std::sync::Arc;

use pytree_kernels::base::array::Array;

use crate::base::error::or_panic;
use crate::primitives::body::masks::in_places;
use crate::tensor::Tensor;
use crate::tensor::primitive::{Batched, Cotangents, Linear, Outputs, Primitive, WithTangents};
use crate::tensor::trace::{bind, current_line};

/// Applies a primitive to tensors, which may be traced or concrete.
#[track_caller]
pub(crate) fn bind_all(primitive: &dyn Primitive, operands: &[Tensor]) -> Vec<Tensor> {
    let operands: Vec<&Tensor> = operands.iter().collect();
    or_panic(bind(primitive, &operands)).into_vec()
}

/// Converts the results of a body to the form that an evaluation rule returns.
pub(crate) fn arrays(results: Vec<Arc<Array>>) -> Outputs<Array> {
    results.into_iter().map(Arc::unwrap_or_clone).collect()
}

/// Returns results with their tangents, for a JVP rule. `has_tangent` marks the results that have a tangent.
#[track_caller]
pub(crate) fn with_tangents(
    results: Vec<Tensor>,
    tangents: Vec<Tensor>,
    has_tangent: &[bool],
) -> WithTangents {
    (results.into(), in_places(tangents, has_tangent).into())
}

/// Returns results with their tangents, for a JVP rule whose body returns the tangents after the results.
#[track_caller]
pub(crate) fn tangents_behind(mut results: Vec<Tensor>, has_tangent: &[bool]) -> WithTangents {
    let tangents = results.split_off(has_tangent.len());
    with_tangents(results, tangents, has_tangent)
}

/// Returns the inputs of a transposed body: the known operands, followed by the cotangents that are not `None`. `None`
/// means zeros.
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

/// Returns the cotangent of each operand, for a transpose rule. The cotangents are the results of a transposed body.
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

/// Returns the operands of a primitive under a condition. The condition, if there is one, comes before the operands at `places`, in
/// ascending order, where the inputs of bodies are.
pub(crate) fn with_condition<'t>(
    condition: Option<&'t Tensor>,
    operands: &[&'t Tensor],
    places: &[usize],
) -> Vec<&'t Tensor> {
    let mut operands = operands.to_vec();
    for &place in places.iter().rev() {
        operands.splice(place..place, condition);
    }
    operands
}

/// Returns results with their batch axes, for a batching rule. A result whose flag in `mapped` is set has a leading
/// batch axis.
pub(crate) fn mapped_in_front(results: Vec<Tensor>, mapped: &[bool]) -> Batched {
    let axes = mapped.iter().map(|&mapped| mapped.then_some(0));
    (results.into(), axes.collect())
}

/// Panics because the user gave a rule only for cotangents, but forward mode needs a rule for tangents.
pub(crate) fn no_forward_mode(operation: &str) -> ! {
    panic!(
        "cannot differentiate the {operation} at {} in forward mode: its rule gives cotangents only; use reverse mode (`grad`, `vjp`, `jacrev`), or give a rule for tangents by `custom_jvp`",
        current_line()
    )
}
