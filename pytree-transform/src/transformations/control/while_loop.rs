//! `while_loop`: repeats a function while a condition holds.

use std::panic::Location;

use pytree_core::boundary::flatten_with_references;
use pytree_kernels::base::dtype::{AbstractArray, DType};

use crate::base::text_layout::with_article;
use crate::executor::compile;
use crate::primitives::body::Body;
use crate::primitives::body::rules::bind_all;
use crate::primitives::control::while_loop::While;
use crate::tensor::Tensor;
use crate::tensor::stage::stage;
use crate::tensor::trace::{Recorder, at_own_lines};
use crate::tensor::traceable::Traceable;
use crate::transformations::control::mismatch::{changed, differences, fix, moved};
use crate::transformations::function::{
    Ending, call_reading, inside, or_no_leaves, rebuild_changed,
};
use crate::transformations::returned::Returned;

/// Applies `body` to a carry as long as `condition` holds for the carry.
///
/// Both functions are traced once. Under `vmap` with a condition for each example, the loop runs until the condition is
/// false for all examples. The carry of an example stops changing as soon as the example's own condition is false. The
/// number of iterations is not known in advance, so only forward-mode differentiation works. For reverse mode use
/// [`scan`](crate::scan), or [`fori_loop`](crate::fori_loop) with bounds that are numbers.
///
/// The condition, the body or both may return a `Result`; see [`Returned`]. If one of them returns an `Err` while it is
/// traced, the call returns this `Err`. If both return a `Result`, the call returns a nested `Result`. The outer
/// `Result` belongs to the condition, and the inner `Result` belongs to the body. Write `while_loop(…)??`.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, while_loop};
/// let (count, _) = while_loop(
///     |(_, x)| x.greater(1.0),
///     |(count, x)| (count + 1, x / 2.0),
///     (Tensor::from(0), Tensor::from(10.0_f32)),
/// );
/// assert_eq!(count.item::<i32>(), 4);
/// ```
///
/// # Panics
/// If the condition is not a bool without axes, or if the body changes structure, shape, dtype or references of the
/// carry.
#[doc(alias = "lax.while_loop")]
#[track_caller]
pub fn while_loop<C, H, R, KH, K>(
    condition: impl Fn(&C) -> H,
    body: impl Fn(C) -> R,
    init: C,
) -> H::With<R::With<C>>
where
    C: Traceable,
    H: Returned<KH, Value = Tensor>,
    R: Returned<K, Value = C>,
{
    let condition = |carry: &C| condition(carry).into_value();
    let body = |carry| body(carry).into_value();
    H::with(repeat(Recorder::WhileLoop, "", condition, body, init).map(R::with))
}

/// Runs a while loop. Messages refer to the loop by the name of `recorder`. `of_carry` is inserted after the word
/// "returns" in the message about a carry that differs.
///
/// # Errors
/// The outer error is the error of the condition, and the inner error is the error of the body.
#[track_caller]
pub(crate) fn repeat<C: Traceable, H, E>(
    recorder: Recorder,
    of_carry: &str,
    condition: impl Fn(&C) -> Result<Tensor, H>,
    body: impl Fn(C) -> Result<C, E>,
    init: C,
) -> Result<Result<C, E>, H> {
    let (leaves, treedef, references) = flatten_with_references::<Tensor, C>(&init);
    drop(init);
    let infos: Vec<AbstractArray> = leaves.iter().map(|leaf| leaf.info().clone()).collect();
    let (mut condition, condition_captured, info) = stage(recorder, &infos, |tensors| {
        let of_condition = format!("the condition of {recorder}");
        let holds = call_reading(&of_condition, &treedef, tensors, |carry: C| {
            condition(&carry)
        });
        or_no_leaves(holds.map(|holds| {
            let info = holds.info().clone();
            (vec![holds], info)
        }))
    });
    let info = info?;
    assert!(
        info.rank() == 0 && info.dtype == DType::Bool,
        "cannot use {} as the condition of a loop: the condition of {recorder} must return a bool without axes; compare, for instance with `.greater(0.0)`, and reduce with `.all()` or `.any()`",
        with_article(&info)
    );
    let (mut body, body_captured, recorded) = stage(recorder, &infos, |tensors| {
        let (carry, given) = inside(&treedef, tensors);
        let carry = at_own_lines(|| body(carry));
        or_no_leaves(carry.map(|carry| {
            let (leaves, after, references) = flatten_with_references::<Tensor, C>(&carry);
            let moved = moved(&given, &after, &references);
            (leaves, (after, moved))
        }))
    });
    let (after, moved) = match recorded {
        Ok(recorded) => recorded,
        Err(error) => return Ok(Err(error)),
    };
    let found: Vec<AbstractArray> = body.output_infos().cloned().collect();
    let mut problems = differences((&treedef, &infos), (&after, &found));
    if after == treedef {
        problems.extend(moved);
    }
    assert!(
        problems.is_empty(),
        "cannot loop: the carry that the body of {recorder} returns{of_carry} differs from the carry it received: {}; a carry must keep its structure, shapes and element types: {}",
        problems.join("; "),
        fix(&problems)
    );
    let changed = changed(&body, 0..infos.len());
    // The primitive takes the captured tensors as its first operands.
    condition.inputs.rotate_left(infos.len());
    body.inputs.rotate_left(infos.len());
    let primitive = While::new(
        (
            Body::new(recorder, condition, compile),
            condition_captured.len(),
        ),
        (Body::new(recorder, body, compile), body_captured.len()),
    );
    let operands: Vec<Tensor> = condition_captured
        .into_iter()
        .chain(body_captured)
        .chain(leaves)
        .collect();
    let results = bind_all(&primitive, &operands);
    let ending = Ending::of(recorder.name(), Location::caller());
    let carry = rebuild_changed(ending, &treedef, results, &references, &changed);
    Ok(Ok(carry))
}
