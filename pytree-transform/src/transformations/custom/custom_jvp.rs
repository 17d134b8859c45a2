//! `custom_jvp`: a function with a custom rule for its tangents.

use std::panic::Location;
use std::sync::Arc;

use pytree_base::bug::pairs;

use crate::executor::compile;
use crate::primitives::body::tape::record_linear;
use crate::primitives::body::{Body, Linearized, Rule, chosen, in_places};
use crate::primitives::create::or_zeros;
use crate::tensor::Tensor;
use crate::tensor::jaxpr::{INPUTS, Jaxpr};
use crate::tensor::stage::{stage, with_all_captured};
use crate::tensor::trace::{Captured, Recorder};
use crate::tensor::traceable::{Traceable, rebuild};
use crate::transformations::custom::check::{
    Form, call_with_rule, flatten, is_differentiated, nested, refuse_captured,
};
use crate::transformations::function::{call_reading, transformed};
use crate::transformations::returned::{Returned, always};

/// Gives a function a custom derivative: a rule that takes the argument and the tangent of the argument, and returns
/// the result and the tangent of the result.
///
/// The rule must be linear in the tangent: reverse mode transposes the rule, and higher-order derivatives differentiate
/// the rule. For leaves that are not floats, the rule receives zeros as tangents, and the tangents that the rule
/// returns are ignored. The function and the rule may capture values, but are not differentiated with respect to these
/// values.
///
/// The rule runs only when the function is differentiated, once for each order of differentiation. So the rule may call
/// the function itself. The rule must own the values that it captures. If the rule captures a traced tensor, and the
/// function is recorded before it is differentiated, the function must also capture this tensor.
///
/// The function may return a `Result`; see [`Returned`]. The rule returns values and not a `Result`, because it runs
/// only after the function has succeeded for the same shapes. At that time, the call of the function may have ended and
/// cannot return an error.
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
///
/// // A straight-through estimator, also for the second derivative: the rule calls the function.
/// fn rounded(x: &Tensor) -> Tensor {
///     custom_jvp(Tensor::round, |x, tangent| (rounded(x), tangent.clone()))(x)
/// }
/// let slope = grad(|x: &Tensor| rounded(x).square());
/// let x = Tensor::from(1.75_f32);
/// assert_eq!(slope(&x).item::<f32>(), 4.0);
/// assert_eq!(grad(&slope)(&x).item::<f32>(), 2.0);
/// ```
///
/// # Panics
/// Under a transformation, the returned function panics if a result of the rule differs from the result of `function`
/// in structure, shapes or dtypes.
#[doc(alias = "jax.custom_jvp")]
#[track_caller]
pub fn custom_jvp<'f, A, R, K>(
    function: impl Fn(&A) -> R + Send + Sync + 'f,
    rule: impl Fn(&A, &A) -> (R::Value, R::Value) + Send + Sync + 'static,
) -> CustomJvp<'f, A, R::With<R::Value>>
where
    A: Traceable,
    R: Returned<K>,
{
    let line = Location::caller();
    let rule = Arc::new(rule);
    CustomJvp {
        call: Box::new(move |argument| {
            let function = |argument: &A| function(argument).into_value();
            R::with(run(&function, &rule, argument, line))
        }),
    }
}

/// The result of [`custom_jvp`]: the function with its rule. `R` is the result of a call: a value, or a `Result`.
pub struct CustomJvp<'f, A, R> {
    call: Box<dyn Fn(&A) -> R + Send + Sync + 'f>,
}
transformed!(reference [A: Traceable, R] CustomJvp<'f, A, R>, (A) -> R);

const RECORDER: Recorder = Recorder::CustomJvp;

fn run<A: Traceable, R: Traceable, E>(
    function: &impl Fn(&A) -> Result<R, E>,
    rule: &Arc<impl Fn(&A, &A) -> (R, R) + Send + Sync + 'static>,
    argument: &A,
    line: &'static Location<'static>,
) -> Result<R, E> {
    call_with_rule(RECORDER, line, function, argument, |operands, recorded| {
        let (form, result) = (recorded.argument, recorded.result);
        let (jaxpr, captured) = (recorded.jaxpr, recorded.captured);
        if operands.iter().any(is_differentiated) {
            let recorded = record_rule(&**rule, &form, &result, &Captured::default(), line);
            let functions = vec![(jaxpr, captured), (recorded.known, recorded.captured)];
            let (jaxprs, captured) = with_all_captured(operands.len(), functions);
            let [jaxpr, known]: [_; 2] = match jaxprs.try_into() {
                Ok(both) => both,
                Err(_) => unreachable!("two functions are recorded"),
            };
            operands.extend(captured);
            let rule = split(known, recorded.linear, &result);
            return (jaxpr, Rule::recorded(rule));
        }
        let of_function = Captured::new(&captured);
        let rule = Arc::clone(rule);
        operands.extend(captured);
        let record = move || {
            let recorded = record_rule(&*rule, &form, &result, &of_function, line);
            refuse_captured(RECORDER, line, &recorded.captured);
            split(recorded.known, recorded.linear, &result)
        };
        (jaxpr, Rule::when_needed(record))
    })
}

/// A recorded rule: its known part, the tensors that the known part captured, and its linear part. The known part does
/// not depend on the tangents. The linear part is linear in the tangents.
struct RecordedRule {
    known: Jaxpr,
    captured: Vec<Tensor>,
    linear: Jaxpr,
}

/// Runs and records a rule. The inputs of the part `known` are the argument and the tensors that the function captured.
fn record_rule<A: Traceable, R: Traceable>(
    rule: &impl Fn(&A, &A) -> (R, R),
    form: &Form,
    result: &Form,
    of_function: &Captured,
    line: &'static Location<'static>,
) -> RecordedRule {
    let floats = form.is_float();
    let of_tangents: Vec<_> = chosen(&form.infos, &floats).cloned().collect();
    let infos = [form.infos.as_slice(), of_function.infos()].concat();
    let (known, captured, linear) = stage(RECORDER, &infos, |mut primals| {
        let stand_ins = primals.split_off(form.infos.len());
        let (tape, (mut values, mistakes)) = record_linear(&of_tangents, |tangents| {
            let tangents = pairs(in_places(tangents, &floats), &primals, INPUTS)
                .map(|(tangent, primal)| or_zeros(tangent.as_ref(), primal.info()))
                .collect();
            let run = |primal: A| {
                let tangent: A = rebuild(&form.treedef, tangents);
                nested(RECORDER, line, || rule(&primal, &tangent))
            };
            let ((values, value_treedef), (tangents, tangent_treedef)) =
                of_function.replaced(&stand_ins, || {
                    let primals = primals.clone();
                    let name = "the rule of custom_jvp";
                    let result = call_reading(name, &form.treedef, primals, |it| Ok(run(it)));
                    let (value, tangent) = always(result);
                    (flatten::<R>(&value), flatten::<R>(&tangent))
                });
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
                chosen(&tangents, &result.is_float()).cloned().collect()
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
    RecordedRule {
        known,
        captured,
        linear,
    }
}

fn split(known: Jaxpr, linear: Jaxpr, result: &Form) -> Linearized {
    Linearized::new(
        Body::new(RECORDER, known, compile),
        Body::new(RECORDER, linear, compile),
        result.infos.len(),
        result.is_float(),
    )
}
