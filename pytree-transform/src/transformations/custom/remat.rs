//! `remat`: derivatives that recompute intermediate values instead of storing them.

use std::panic::Location;
use std::sync::Arc;

use pytree_core::boundary::flatten_with_references;

use crate::base::dtype::AbstractArray;
use crate::executor::compile;
use crate::primitives::body::remat::RematPolicy;
use crate::primitives::body::{Body, Derivative};
use crate::primitives::call::call;
use crate::tensor::Tensor;
use crate::tensor::stage::stage;
use crate::tensor::trace::{Recorder, at_line_by_default, is_transforming};
use crate::tensor::traceable::Traceable;
use crate::transformations::function::{Ending, call_inside, rebuild_result, transformed};

/// Returns a function whose derivative stores only the argument, and recomputes the intermediate values.
///
/// This trades time for memory: reverse mode stores no intermediate values of the function (Chen et al. 2016, "Training
/// Deep Nets with Sublinear Memory Cost"; JAX's `jax.checkpoint`). [`policy`](Remat::policy) selects intermediate
/// values to store. Values and derivatives equal those of the original function.
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
#[track_caller]
pub fn remat<'f, A, R>(function: impl Fn(&A) -> R + Send + Sync + 'f) -> Remat<'f, A, R>
where
    A: Traceable,
    R: Traceable,
{
    Remat::new(Arc::new(function), RematPolicy::Nothing, Location::caller())
}

/// The result of [`remat`]: a function whose derivative recomputes intermediate values.
pub struct Remat<'f, A, R> {
    function: Arc<dyn Fn(&A) -> R + Send + Sync + 'f>,
    line: &'static Location<'static>,
    call: Box<dyn Fn(&A) -> R + Send + Sync + 'f>,
}
transformed!(reference [A: Traceable, R: Traceable] Remat<'f, A, R>, (A) -> R);

impl<'f, A: Traceable, R: Traceable> Remat<'f, A, R> {
    fn new(
        function: Arc<dyn Fn(&A) -> R + Send + Sync + 'f>,
        policy: RematPolicy,
        line: &'static Location<'static>,
    ) -> Self {
        let inner = Arc::clone(&function);
        Self {
            function,
            line,
            call: Box::new(move |argument| run(&*inner, policy, argument, line)),
        }
    }

    /// Stores the intermediate values that a policy selects, instead of recomputing them.
    #[must_use]
    pub fn policy(self, policy: RematPolicy) -> Self {
        Self::new(self.function, policy, self.line)
    }
}

fn run<A: Traceable, R: Traceable>(
    function: &(dyn Fn(&A) -> R + Send + Sync + '_),
    policy: RematPolicy,
    argument: &A,
    line: &'static Location<'static>,
) -> R {
    if !is_transforming() {
        return function(argument);
    }
    let (mut operands, treedef, references) = flatten_with_references::<Tensor, A>(argument);
    let infos: Vec<AbstractArray> = operands.iter().map(|leaf| leaf.info().clone()).collect();
    let (jaxpr, captured, outcome) = stage(Recorder::Remat, &infos, |tensors| {
        call_inside::<A, R>(&treedef, tensors, |argument| function(&argument))
    });
    let derivative = Derivative::Recomputed(policy);
    let body = Body::with_derivative(Recorder::Remat, jaxpr, derivative, compile);
    operands.extend(captured);
    let results = at_line_by_default(line, || call(&body, &operands));
    rebuild_result(Ending::of("remat", line), &outcome, results, &references)
}
