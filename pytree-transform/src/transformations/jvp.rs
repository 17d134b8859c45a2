//! `jvp`: forward-mode differentiation.

use std::panic::Location;

use pytree_core::boundary::flatten_with_references;

use crate::base::error::or_panic;
use crate::tensor::Tensor;
use crate::tensor::trace::{Interpreter, Trace, at_line_by_default};
use crate::tensor::traceable::{Traceable, rebuild};
use crate::transformations::function::{Ending, Function, Known, call_inside, rebuild_result};
use crate::transformations::returned::Returned;

/// Returns the result of a function at `primals`, and the derivative of the function in the direction `tangents`. Uses
/// forward-mode differentiation.
///
/// `tangents` has the structure of `primals`. The tangents of leaves that are not floats are ignored. The function may
/// return a `Result`; see [`Returned`].
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, jvp};
/// let (y, dy) = jvp(|x: &Tensor| x.powi(3), &Tensor::from(2.0_f64), &Tensor::from(1.0_f64));
/// assert_eq!(y.item::<f64>(), 8.0);
/// assert_eq!(dy.item::<f64>(), 12.0);
/// ```
///
/// # Panics
/// If the tangents differ from the primals in structure, shapes or dtypes.
#[doc(alias("jax.jvp", "torch.func.jvp"))]
#[track_caller]
pub fn jvp<M, R, F, K, C>(function: F, primals: &M, tangents: &M) -> R::With<(R::Value, R::Value)>
where
    M: Traceable,
    R: Returned<K>,
    F: for<'a> Function<&'a M, C, Output = R>,
{
    let line = Location::caller();
    let (leaves, treedef, references) = flatten_with_references::<Tensor, M>(primals);
    let (tangents, tangents_treedef, of_tangents) = flatten_with_references::<Tensor, M>(tangents);
    let references = references.beside(of_tangents);
    assert!(
        treedef == tangents_treedef,
        "cannot take a jvp: the tangents have the structure {tangents_treedef}, expected the structure of the primals, {treedef}"
    );
    for (path, (primal, tangent)) in treedef
        .leaf_paths()
        .iter()
        .zip(leaves.iter().zip(&tangents))
    {
        assert!(
            primal.info() == tangent.info() || !primal.dtype().is_float(),
            "cannot take a jvp: at {} the primal is {}, but the tangent is {}; pass a tangent of the primal's shape and dtype",
            path.or_root(),
            primal.info(),
            tangent.info()
        );
    }
    let trace = Trace::begin(Interpreter::Jvp);
    let duals = leaves
        .iter()
        .zip(tangents)
        .map(|(primal, tangent)| {
            if primal.dtype().is_float() {
                trace.dual(primal.clone(), Some(tangent))
            } else {
                primal.clone()
            }
        })
        .collect();
    let (results, outcome) = call_inside(Known::References, &treedef, duals, |primals: M| {
        function.call(&primals).into_value()
    });
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => return R::with(Err(error)),
    };
    let (mut primals_out, mut tangents_out) = (Vec::new(), Vec::new());
    for result in &results {
        let (primal, tangent) = or_panic(trace.undual(result));
        let zeros = || at_line_by_default(line, || Tensor::zeros_like(&primal));
        tangents_out.push(tangent.unwrap_or_else(zeros));
        primals_out.push(primal);
    }
    drop(trace);
    let result = outcome.result();
    tangents_out.truncate(result.num_leaves());
    let tangent = rebuild(result, tangents_out);
    let ending = Ending::of("jvp", line);
    let result = rebuild_result(ending, &outcome, primals_out, &references);
    R::with(Ok((result, tangent)))
}
