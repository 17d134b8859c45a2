//! `make_jaxpr`: records a function as a [`Jaxpr`].

use std::sync::Arc;

use pytree_core::graph;

use crate::jaxpr::debug_verify;
use crate::tensor::Tensor;
use crate::tensor::jaxpr::Jaxpr;
use crate::tensor::stage::stage;
use crate::tensor::trace::Recorder;
use crate::tensor::traceable::Traceable;
use crate::transformations::function::{Function, Known, call_inside, transformed};
use crate::transformations::returned::Returned;

/// Returns a function that takes an argument and records `function` as a [`Jaxpr`], for the structure, shapes and
/// dtypes of this argument. No equation is removed or rewritten. The function may return a `Result`; see [`Returned`].
///
/// The inputs of the jaxpr are the leaves of the argument, followed by the traced tensors that the function captured.
/// Other captured tensors are constants. The outputs are the leaves of the result.
///
/// # Examples
/// ```
/// use pytree_transform::{DType, Tensor, make_jaxpr, vmap};
/// let jaxpr = make_jaxpr(vmap(|x: Tensor| x.sin().sum() * x))(Tensor::ones(DType::F32, [2, 3]));
/// let names: Vec<_> = jaxpr.equations().map(|equation| equation.name()).collect();
/// assert_eq!(names, ["sin", "reduce_sum", "broadcast_in_dim", "mul"]);
/// let jaxpr = make_jaxpr(|x: Tensor| x.sin())(Tensor::from(1.0_f32));
/// assert_eq!(jaxpr.to_string(), "{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }");
/// ```
///
/// # Panics
/// The returned function panics if `function` panics.
#[doc(alias("jax.make_jaxpr", "torch.fx", "torch.fx.symbolic_trace"))]
pub fn make_jaxpr<'f, A, R, F, K, C>(function: F) -> MakeJaxpr<'f, A, R::With<Jaxpr>>
where
    A: Traceable,
    R: Returned<K>,
    F: Function<A, C, Output = R> + Send + Sync + 'f,
{
    MakeJaxpr {
        call: Arc::new(move |argument| {
            let (leaves, treedef) = graph::flatten::<_, A>(&argument);
            let infos: Vec<_> = leaves
                .iter()
                .map(|leaf: &Tensor| leaf.info().clone())
                .collect();
            let (jaxpr, _, outcome) = stage(Recorder::MakeJaxpr, &infos, |tensors| {
                call_inside(Known::All, &treedef, tensors, |argument| {
                    function.call(argument).into_value()
                })
            });
            R::with(outcome.map(|_| {
                debug_verify(&jaxpr, "recording");
                jaxpr
            }))
        }),
    }
}

/// The result of [`make_jaxpr`]: a function from an argument to a [`Jaxpr`]. `O` is a `Result` if the recorded function
/// returns a `Result`.
pub struct MakeJaxpr<'f, A, O = Jaxpr> {
    call: Arc<dyn Fn(A) -> O + Send + Sync + 'f>,
}
transformed!([A: Traceable, O] MakeJaxpr<'f, A, O>, (A) -> O);
