//! `remat`: derivatives that recompute intermediate values instead of storing them.

use std::panic::Location;
use std::sync::Arc;

use pytree_core::boundary::flatten_with_references;
use pytree_kernels::base::dtype::AbstractArray;

use crate::executor::compile;
use crate::primitives::body::recorded::RematPolicy;
use crate::primitives::body::{Body, Derivative};
use crate::primitives::call::call;
use crate::tensor::Tensor;
use crate::tensor::stage::stage;
use crate::tensor::trace::{Recorder, at_line_by_default, is_transforming};
use crate::tensor::traceable::Traceable;
use crate::transformations::function::{Ending, Known, call_inside, rebuild_result, transformed};
use crate::transformations::returned::Returned;

/// Returns a function whose derivative stores only the argument, and recomputes the intermediate values.
///
/// Trades time for memory: reverse mode stores no intermediate values of the function (Chen et al. 2016, "Training Deep
/// Nets with Sublinear Memory Cost"; JAX's `jax.checkpoint`). [`policy`](Remat::policy) selects intermediate values to
/// store. Values and derivatives are the same as without `remat`, and effects happen once: the result of an
/// [`io_callback`](crate::io_callback) is always stored. The function may return a `Result`; see [`Returned`].
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, grad, remat};
/// let layer = remat(|x: &Tensor| x.sin().exp().tanh());
/// let slope = grad(|x: &Tensor| layer(&layer(x)).sum())(&Tensor::from([0.5_f64, 1.0]));
/// assert_eq!(slope.shape(), [2]);
/// ```
///
/// # Panics
/// The returned function panics if `function` panics.
#[doc(alias("jax.checkpoint", "jax.remat", "nnx.remat", "torch.utils.checkpoint"))]
#[track_caller]
pub fn remat<'f, A, R, K>(
    function: impl Fn(&A) -> R + Send + Sync + 'f,
) -> Remat<'f, A, R::With<R::Value>>
where
    A: Traceable,
    R: Returned<K>,
{
    let line = Location::caller();
    let compute = move |argument: &A, policy| {
        let function = |argument: &A| function(argument).into_value();
        R::with(run(function, policy, argument, line))
    };
    Remat::new(Arc::new(compute), RematPolicy::Nothing)
}

/// The result of [`remat`]: a function whose derivative recomputes intermediate values. `R` is the result of a call: a
/// value, or a `Result`.
pub struct Remat<'f, A, R> {
    compute: Arc<Compute<'f, A, R>>,
    call: Box<dyn Fn(&A) -> R + Send + Sync + 'f>,
}
type Compute<'f, A, R> = dyn Fn(&A, RematPolicy) -> R + Send + Sync + 'f;

transformed!(reference [A: Traceable, R] Remat<'f, A, R>, (A) -> R);

impl<'f, A: Traceable, R: 'f> Remat<'f, A, R> {
    fn new(compute: Arc<Compute<'f, A, R>>, policy: RematPolicy) -> Self {
        let inner = Arc::clone(&compute);
        Self {
            compute,
            call: Box::new(move |argument| inner(argument, policy)),
        }
    }

    /// Stores the intermediate values that a policy selects, instead of recomputing them.
    #[doc(alias = "jax.checkpoint_policies")]
    #[must_use]
    pub fn policy(self, policy: RematPolicy) -> Self {
        Self::new(self.compute, policy)
    }
}

fn run<A: Traceable, R: Traceable, E>(
    function: impl Fn(&A) -> Result<R, E>,
    policy: RematPolicy,
    argument: &A,
    line: &'static Location<'static>,
) -> Result<R, E> {
    if !is_transforming() {
        return function(argument);
    }
    let (mut operands, treedef, references) = flatten_with_references::<Tensor, A>(argument);
    let infos: Vec<AbstractArray> = operands.iter().map(|leaf| leaf.info().clone()).collect();
    let (jaxpr, captured, outcome) = stage(Recorder::Remat, &infos, |tensors| {
        call_inside(Known::All, &treedef, tensors, |argument: A| {
            function(&argument)
        })
    });
    let outcome = outcome?;
    let derivative = Derivative::Recomputed(policy);
    let body = Body::with_derivative(Recorder::Remat, jaxpr, derivative, compile);
    operands.extend(captured);
    let results = at_line_by_default(line, || call(&body, &operands));
    let ending = Ending::of("remat", line);
    Ok(rebuild_result(ending, &outcome, results, &references))
}
