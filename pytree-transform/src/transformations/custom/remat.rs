//! `remat`: derivatives that compute values again instead of keeping them.

use std::collections::HashSet;
use std::panic::Location;
use std::sync::Arc;

use pytree_core::crossing::take_apart;

use crate::base::dtype::AbstractArray;
use crate::primitives::body::{Body, Derivative, Linearized, stage};
use crate::primitives::call::call;
use crate::tensor::Tensor;
use crate::tensor::jaxpr::Variable;
use crate::tensor::trace::{at_line_by_default, is_transforming};
use crate::transformations::function::{
    Ending, Traceable, call_inside, rebuild_result, transformed,
};

/// What [`remat`] keeps of the values that derivatives need, beside the arguments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RematPolicy {
    /// Nothing: all values are computed again (JAX's `nothing_saveable`, and its default).
    #[default]
    Nothing,
    /// The results of matrix products (`dots_saveable`): they cost most to compute.
    Dots,
    /// All values, as without `remat` (`everything_saveable`).
    Everything,
}

/// A function whose derivative keeps only its argument, and computes the values in between again.
///
/// Memory is traded for time: reverse mode keeps the values in between of everything outside, but not of this
/// function (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost"; JAX's `jax.checkpoint`).
/// [`policy`](Remat::policy) keeps some of them. Values and derivatives are those of the function itself.
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
/// When called: as the function does.
#[track_caller]
pub fn remat<'f, A, R>(function: impl Fn(&A) -> R + Send + Sync + 'f) -> Remat<'f, A, R>
where
    A: Traceable,
    R: Traceable,
{
    Remat::new(Arc::new(function), RematPolicy::Nothing, Location::caller())
}

/// What [`remat`] returns: the function with another derivative.
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

    /// Keeps what a policy says.
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
    let (mut operands, treedef, references) = take_apart::<Tensor, A>(argument);
    let infos: Vec<AbstractArray> = operands.iter().map(|leaf| leaf.info().clone()).collect();
    let (jaxpr, captured, outcome) = stage("remat", &infos, |tensors| {
        call_inside::<A, R>(&treedef, tensors, |argument| function(&argument))
    });
    let derivative = Derivative::Recomputed(policy);
    let body = Body::with_derivative("remat", String::new(), jaxpr, derivative);
    operands.extend(captured);
    let results = at_line_by_default(line, || call(&body, &operands));
    rebuild_result(Ending::of("remat", line), &outcome, results, &references)
}

impl RematPolicy {
    fn keeps(self, primitive: &str) -> bool {
        self == Self::Dots && primitive == "dot_general"
    }

    /// The split in which the linear part computes the residuals from the inputs, and from what is kept.
    pub(crate) fn recomputed(self, split: &Linearized) -> Linearized {
        if self == Self::Everything {
            return split.clone();
        }
        let known = &split.known.jaxpr;
        let mut again = known.clone();
        again.outputs.drain(..split.outputs);
        let mut kept: Vec<Variable> = Vec::new();
        again.equations.retain(|equation| {
            let keeps = self.keeps(equation.primitive.name());
            if keeps {
                kept.extend_from_slice(&equation.outputs);
            }
            !keeps
        });
        again.inputs.extend(kept);
        let mut again = again.only_needed();
        let used: HashSet<Variable> = again
            .equations
            .iter()
            .flat_map(|equation| equation.inputs.iter())
            .chain(&again.outputs)
            .copied()
            .collect();
        again.inputs.retain(|input| used.contains(input));

        let mut first = known.clone();
        first.outputs.truncate(split.outputs);
        first.outputs.extend_from_slice(&again.inputs);
        let linear = &split.linear;
        let of_tangents = linear.jaxpr.inputs.len() - again.outputs.len();
        let infos: Vec<AbstractArray> = linear
            .input_infos()
            .into_iter()
            .take(of_tangents)
            .chain(again.inputs.iter().map(|&input| again.info(input).clone()))
            .collect();
        let (jaxpr, _, ()) = stage(linear.name, &infos, |mut tensors| {
            let kept = tensors.split_off(of_tangents);
            tensors.extend(again.apply(&kept));
            (linear.jaxpr.apply(&tensors), ())
        });
        Linearized::new(
            Body::new(split.known.name, first),
            Body::new(linear.name, jaxpr),
            split.outputs,
            split.has_tangent.clone(),
        )
    }
}
