//! `custom_jvp`: a function with a custom rule for its tangents.

use std::panic::Location;
use std::sync::Arc;

use pytree_core::bug::pairs;
use pytree_core::graph;

use crate::executor::compile;
use crate::primitives::body::tape::record_linear;
use crate::primitives::body::{Body, Derivative, GivenRule, Linearized, chosen, in_places};
use crate::primitives::call::call;
use crate::primitives::create::or_zeros;
use crate::tensor::Tensor;
use crate::tensor::jaxpr::INPUTS;
use crate::tensor::stage::{stage, with_all_captured};
use crate::tensor::trace::{Recorder, at_line, is_transforming};
use crate::tensor::traceable::{Traceable, rebuild};
use crate::transformations::custom::check::{Form, Recorded, record};
use crate::transformations::function::{call_reading, transformed};

/// Gives a function a custom derivative: a rule that takes the argument and its tangent, and returns the result and its
/// tangent.
///
/// The rule must be linear in the tangent; reverse mode transposes the rule, and higher-order derivatives differentiate
/// it. For leaves that are not floats, the rule receives zeros as tangents, and the tangents that it returns are
/// ignored. Function and rule may capture values, but are not differentiated with respect to them.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, custom_jvp, grad};
/// // log(1 + eˣ), whose derivative would overflow as recorded.
/// let softplus = custom_jvp(
///     |x: &Tensor| (x.exp() + 1.0).log(),
///     |x, tangent| ((x.exp() + 1.0).log(), tangent * (1.0 - 1.0 / (1.0 + x.exp()))),
/// );
/// assert_eq!(grad(&softplus)(&Tensor::from(100.0_f32)).item::<f32>(), 1.0);
/// ```
///
/// # Panics
/// Under a transformation, the returned function panics if a result of the rule differs from the result of `function`
/// in structure, shapes or dtypes.
#[track_caller]
pub fn custom_jvp<'f, A, R>(
    function: impl Fn(&A) -> R + Send + Sync + 'f,
    rule: impl Fn(&A, &A) -> (R, R) + Send + Sync + 'f,
) -> CustomJvp<'f, A, R>
where
    A: Traceable,
    R: Traceable,
{
    let line = Location::caller();
    CustomJvp {
        call: Box::new(move |argument| run(&function, &rule, argument, line)),
    }
}

/// The result of [`custom_jvp`]: the function with its rule.
pub struct CustomJvp<'f, A, R> {
    call: Box<dyn Fn(&A) -> R + Send + Sync + 'f>,
}
transformed!(reference [A: Traceable, R: Traceable] CustomJvp<'f, A, R>, (A) -> R);

fn run<A: Traceable, R: Traceable>(
    function: &impl Fn(&A) -> R,
    rule: &impl Fn(&A, &A) -> (R, R),
    argument: &A,
    line: &'static Location<'static>,
) -> R {
    if !is_transforming() {
        return function(argument);
    }
    let (mut operands, treedef) = graph::flatten::<Tensor, A>(argument);
    let form = Form::of(treedef, &operands);
    let Recorded {
        jaxpr,
        captured,
        result,
    } = record(Recorder::CustomJvp, &form, function);
    let floats = form.is_float();
    let of_tangents: Vec<_> = chosen(&form.infos, &floats).cloned().collect();
    let has_tangent = result.is_float();
    let (known, known_captured, linear) = stage(Recorder::CustomJvp, &form.infos, |primals| {
        let (tape, (mut values, mistakes)) = record_linear(&of_tangents, |tangents| {
            let tangents = pairs(in_places(tangents, &floats), &primals, INPUTS)
                .map(|(tangent, primal)| or_zeros(tangent.as_ref(), primal.info()))
                .collect();
            let (value, tangent) = call_reading(
                "the rule of custom_jvp",
                &form.treedef,
                primals.clone(),
                |primal: A| {
                    let tangent: A = rebuild(&form.treedef, tangents);
                    rule(&primal, &tangent)
                },
            );
            let (values, value_treedef) = graph::flatten::<Tensor, R>(&value);
            let (tangents, tangent_treedef) = graph::flatten::<Tensor, R>(&tangent);
            let mut mistakes = Vec::new();
            mistakes.extend(result.mistake(
                "the value that the rule returns differs from the function's result",
                &Form::of(value_treedef, &values),
            ));
            mistakes.extend(result.mistake(
                "the tangent that the rule returns differs from the function's result",
                &Form::of(tangent_treedef, &tangents),
            ));
            let tangents = if mistakes.is_empty() {
                chosen(&tangents, &has_tangent).cloned().collect()
            } else {
                Vec::new()
            };
            (tangents, (values, mistakes))
        });
        assert!(
            mistakes.is_empty(),
            "cannot apply the rule of the custom_jvp at {line}: {}",
            mistakes.join("; ")
        );
        let (linear, residuals) = tape.into_jaxpr();
        values.extend(residuals);
        (values, linear)
    });
    let recorded = vec![(jaxpr, captured), (known, known_captured)];
    let (jaxprs, captured) = with_all_captured(operands.len(), recorded);
    let [jaxpr, known]: [_; 2] = match jaxprs.try_into() {
        Ok(both) => both,
        Err(_) => unreachable!("two functions are recorded"),
    };
    let split = Linearized::new(
        Body::new(Recorder::CustomJvp, known, compile),
        Body::new(Recorder::CustomJvp, linear, compile),
        result.infos.len(),
        has_tangent,
    );
    let rule = GivenRule {
        split: Arc::new(split),
        arguments: operands.len(),
        forward: true,
    };
    let body = Body::with_derivative(Recorder::CustomJvp, jaxpr, Derivative::Given(rule), compile);
    operands.extend(captured);
    let results = at_line(line, || call(&body, &operands));
    rebuild(&result.treedef, results)
}
