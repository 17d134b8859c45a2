//! `custom_vjp`: a function with a custom rule for its cotangents.

use std::collections::HashMap;
use std::panic::Location;
use std::sync::Arc;

use pytree_base::bug::{expect_some, pairs};
use pytree_core::{TreeDef, partition};
use pytree_kernels::base::dtype::AbstractArray;

use crate::executor::compile;
use crate::primitives::body::rules::bind_all;
use crate::primitives::body::{Body, Linearized, Rule, chosen, in_places};
use crate::primitives::create::or_zeros;
use crate::primitives::custom_vjp::Backward;
use crate::tensor::Tensor;
use crate::tensor::jaxpr::{Jaxpr, RESULTS};
use crate::tensor::stage::{stage, with_all_captured};
use crate::tensor::trace::{Captured, Recorder, at_own_lines};
use crate::tensor::traceable::{Traceable, rebuild};
use crate::transformations::custom::check::{
    Form, call_with_rule, flatten, is_differentiated, nested, refuse_captured,
};
use crate::transformations::function::{call_reading, transformed};
use crate::transformations::returned::{Returned, always};

/// Gives a function a custom gradient, which two functions, `forward` and `backward`, compute.
///
/// `forward` returns the result and the residuals, which are the values that `backward` needs. `backward` takes the
/// residuals and the cotangent of the result, and returns the cotangent of the argument: a value with the structure of
/// the argument, or a part of it, as [`grad`](crate::grad) and the pullback of [`vjp`](crate::vjp) return. The cotangent
/// of a leaf that the part does not hold is zero.
///
/// The states of a model, such as running statistics, are leaves of the argument, too. [`grad`](crate::grad) and
/// `vjp` return no cotangents of states, so the part has none: a state has no influence on the derivative. If `backward`
/// returns a whole model, it returns zeros for the states; another cotangent of a state is passed on to the function
/// from which the state comes.
///
/// Higher-order derivatives differentiate both functions. Forward mode is not supported. For leaves that are not
/// floats, `backward` receives zeros as cotangents, and the cotangents that it returns are ignored. All three functions
/// may capture values, but are not differentiated with respect to these values.
///
/// Like the rule of a [`custom_jvp`](crate::custom_jvp), `forward` and `backward` run only when the function is
/// differentiated, and may call the function itself. The conditions of `custom_jvp` for captured values also apply to
/// `forward` and `backward`. The function may return a `Result`, but `forward` and `backward` return values.
///
/// # Examples
/// ```
/// use pytree_transform::{Tensor, custom_vjp, grad};
/// let clipped = custom_vjp(
///     |x: &Tensor| x.clone(),
///     |x| (x.clone(), ()),
///     |(), cotangent| cotangent.clip(-1.0, 1.0),
/// );
/// let slope = grad(|x: &Tensor| clipped(x).square().sum())(&Tensor::from([0.25_f32, 3.0]));
/// assert_eq!(slope.to_vec::<f32>(), [0.5, 1.0]);
/// ```
///
/// `backward` of a function of a model may call `vjp`, whose pullback returns a part of the model:
/// ```
/// use pytree_core::Module;
/// use pytree_transform::{Tensor, custom_vjp, grad, vjp};
///
/// #[derive(Module, Clone)]
/// struct Line {
///     #[param]
///     slope: Tensor,
///     #[state]
///     count: Tensor,
/// }
///
/// fn apply(line: &Line, x: &Tensor) -> Tensor {
///     &line.slope * x + &line.count
/// }
///
/// // Gradients of at most 1.
/// let clipped = custom_vjp(
///     |(line, x): &(Line, Tensor)| apply(line, x),
///     |(line, x)| (apply(line, x), (line.clone(), x.clone())),
///     |arguments, cotangent: Tensor| {
///         let (_, pullback) = vjp(|(line, x): &(Line, Tensor)| apply(line, x), &arguments);
///         let (line, x) = pullback.call(&cotangent);
///         (line.map(|slope| slope.clip(-1.0, 1.0)), x)
///     },
/// );
/// let line = Line { slope: Tensor::from(2.0_f32), count: Tensor::from(0.5_f32) };
/// let slope = grad(|line: &Line| clipped(&(line.clone(), Tensor::from(3.0_f32))))(&line);
/// assert_eq!(slope["slope"].item::<f32>(), 1.0);
/// ```
///
/// # Panics
/// Under a transformation, the returned function panics if `forward` returns a result that differs from the result of
/// `function` in structure, shapes or dtypes, or if the cotangent that `backward` returns is neither like the argument
/// nor a part of it.
#[doc(alias("jax.custom_vjp", "torch.autograd.Function"))]
#[track_caller]
pub fn custom_vjp<'f, A, R, S, C, K>(
    function: impl Fn(&A) -> R + Send + Sync + 'f,
    forward: impl Fn(&A) -> (R::Value, S) + Send + Sync + 'static,
    backward: impl Fn(S, R::Value) -> C + Send + Sync + 'static,
) -> CustomVjp<'f, A, R::With<R::Value>>
where
    A: Traceable,
    R: Returned<K>,
    S: Traceable,
    C: Traceable,
{
    let line = Location::caller();
    let rule = Arc::new(UserRule { forward, backward });
    CustomVjp {
        call: Box::new(move |argument| {
            let function = |argument: &A| function(argument).into_value();
            R::with(run(&function, &rule, argument, line))
        }),
    }
}

/// The result of [`custom_vjp`]: the function with its rule. `R` is the result of a call: a value, or a `Result`.
pub struct CustomVjp<'f, A, R> {
    call: Box<dyn Fn(&A) -> R + Send + Sync + 'f>,
}
transformed!(reference [A: Traceable, R] CustomVjp<'f, A, R>, (A) -> R);

/// The two functions of a rule, `forward` and `backward`, as the user wrote them.
struct UserRule<F, B> {
    forward: F,
    backward: B,
}

/// The function `forward` of a rule, which returns the result and the residuals.
trait Forward<A, R, S>: Fn(&A) -> (R, S) + Send + Sync + 'static {}
impl<A, R, S, F: Fn(&A) -> (R, S) + Send + Sync + 'static> Forward<A, R, S> for F {}

/// The function `backward` of a rule, which returns the cotangent of the argument.
trait Backwards<C, R, S>: Fn(S, R) -> C + Send + Sync + 'static {}
impl<C, R, S, B: Fn(S, R) -> C + Send + Sync + 'static> Backwards<C, R, S> for B {}

const RECORDER: Recorder = Recorder::CustomVjp;

fn run<A: Traceable, R: Traceable, S: Traceable, C: Traceable, E>(
    function: &impl Fn(&A) -> Result<R, E>,
    rule: &Arc<UserRule<impl Forward<A, R, S>, impl Backwards<C, R, S>>>,
    argument: &A,
    line: &'static Location<'static>,
) -> Result<R, E> {
    call_with_rule(RECORDER, line, function, argument, |operands, recorded| {
        let (form, result) = (recorded.argument, recorded.result);
        let (jaxpr, captured) = (recorded.jaxpr, recorded.captured);
        if operands.iter().any(is_differentiated) {
            let arguments = operands.len();
            let recorded = record_rule(rule, &form, &result, &Captured::default(), line);
            let RecordedRule { forward, backward } = recorded;
            let functions = vec![(jaxpr, captured), (forward.jaxpr, forward.captured)];
            let (mut jaxprs, mut all) = with_all_captured(arguments, functions);
            forward_captured(&backward.captured, arguments, &mut jaxprs, &mut all);
            let (known, jaxpr) = (jaxprs.pop(), jaxprs.pop());
            let (Some(known), Some(jaxpr)) = (known, jaxpr) else {
                unreachable!("two functions are recorded")
            };
            operands.extend(all);
            let rule = split(known, backward.jaxpr, &form, &result);
            return (jaxpr, Rule::recorded(rule));
        }
        let of_function = Captured::new(&captured);
        let rule = Arc::clone(rule);
        operands.extend(captured);
        let record = move || {
            let RecordedRule { forward, backward } =
                record_rule(&rule, &form, &result, &of_function, line);
            refuse_captured(RECORDER, line, &forward.captured);
            refuse_captured(RECORDER, line, &backward.captured);
            split(forward.jaxpr, backward.jaxpr, &form, &result)
        };
        (jaxpr, Rule::when_needed(record))
    })
}

/// One recorded function of a rule, and the tensors that this function captured.
struct RecordedFunction {
    jaxpr: Jaxpr,
    captured: Vec<Tensor>,
}

/// A recorded rule. `forward` returns the results of the function, followed by the residuals. `backward` takes the
/// residuals, the tensors that `backward` captured, and the cotangents of the results.
struct RecordedRule {
    forward: RecordedFunction,
    backward: RecordedFunction,
}

/// Runs and records a rule. The inputs of the recorded `forward` are the argument and the tensors that the function
/// captured. These captured tensors are also the last residuals.
fn record_rule<A: Traceable, R: Traceable, S: Traceable, C: Traceable>(
    rule: &UserRule<impl Forward<A, R, S>, impl Backwards<C, R, S>>,
    form: &Form,
    result: &Form,
    of_function: &Captured,
    line: &'static Location<'static>,
) -> RecordedRule {
    let infos = [form.infos.as_slice(), of_function.infos()].concat();
    let (known, known_captured, (value, residuals)) = stage(RECORDER, &infos, |mut tensors| {
        let stand_ins = tensors.split_off(form.infos.len());
        let run = |argument: A| nested(RECORDER, line, || (rule.forward)(&argument));
        let ((mut leaves, treedef), (residuals, of_residuals)) =
            of_function.replaced(&stand_ins, || {
                let name = "`forward` of custom_vjp";
                let result = call_reading(name, &form.treedef, tensors, |it| Ok(run(it)));
                let (value, residuals) = always(result);
                (flatten::<R>(&value), flatten::<S>(&residuals))
            });
        let value = Form::of(treedef, &leaves);
        let form = Form::of(of_residuals, &residuals);
        leaves.extend(residuals);
        leaves.extend(stand_ins);
        (leaves, (value, form))
    });
    let mistake = result.mistake(
        "the value that `forward` returns differs from the function's result",
        &value,
    );
    if let Some(mistake) = mistake {
        panic!("cannot apply the rule of the custom_vjp at {line}: {mistake}");
    }
    let (floats, has_tangent) = (form.is_float(), result.is_float());
    let of_results = chosen(&result.infos, &has_tangent).cloned();
    let count = residuals.infos.len() + of_function.infos().len();
    let infos: Vec<AbstractArray> = residuals
        .infos
        .iter()
        .chain(of_function.infos())
        .cloned()
        .chain(of_results)
        .collect();
    let (mut back, back_captured, mistake) = stage(RECORDER, &infos, |mut tensors| {
        let given = tensors.split_off(count);
        let stand_ins = tensors.split_off(residuals.infos.len());
        let cotangents = pairs(in_places(given, &has_tangent), &result.infos, RESULTS)
            .map(|(cotangent, info)| or_zeros(cotangent.as_ref(), info))
            .collect();
        let residuals: S = rebuild(&residuals.treedef, tensors);
        let cotangent: R = rebuild(&result.treedef, cotangents);
        let run = || nested(RECORDER, line, || (rule.backward)(residuals, cotangent));
        let (leaves, treedef) =
            of_function.replaced(&stand_ins, || flatten::<C>(&at_own_lines(run)));
        let (leaves, treedef) = whole(leaves, treedef, form);
        let mistake = form.mistake(
            "the cotangent that `backward` returns differs from the argument",
            &Form::of(treedef, &leaves),
        );
        match mistake {
            None => (chosen(&leaves, &floats).cloned().collect(), None),
            mistake => (Vec::new(), mistake),
        }
    });
    if let Some(mistake) = mistake {
        panic!("cannot apply the rule of the custom_vjp at {line}: {mistake}");
    }
    // The tensors that `backward` captured are its last residuals.
    let captured_by_back = back.inputs.split_off(infos.len());
    let cotangents = back.inputs.split_off(count);
    back.inputs.extend(captured_by_back);
    back.inputs.extend(cotangents);
    RecordedRule {
        forward: RecordedFunction {
            jaxpr: known,
            captured: known_captured,
        },
        backward: RecordedFunction {
            jaxpr: back,
            captured: back_captured,
        },
    }
}

/// Returns the cotangent of a whole argument of the form `form`: if `treedef` is a part of the argument, the other
/// cotangents are zeros. Returns a cotangent with another structure unchanged.
fn whole(leaves: Vec<Tensor>, treedef: TreeDef, form: &Form) -> (Vec<Tensor>, TreeDef) {
    if treedef == form.treedef {
        return (leaves, treedef);
    }
    let zeros = |position: usize| or_zeros(None, &form.infos[position]);
    match partition::fill(&treedef, leaves.clone(), &form.treedef, zeros) {
        Some(filled) => (filled, form.treedef.clone()),
        None => (leaves, treedef),
    }
}

/// Creates a rule from the recorded `forward` (`known`) and the recorded `backward`. The last results of `forward` are
/// the residuals.
fn split(known: Jaxpr, backward: Jaxpr, argument: &Form, result: &Form) -> Linearized {
    let has_tangent = result.is_float();
    let of_results: Vec<AbstractArray> = chosen(&result.infos, &has_tangent).cloned().collect();
    let floats = argument.is_float();
    let of_tangents: Vec<AbstractArray> = chosen(&argument.infos, &floats).cloned().collect();
    let kept = known.output_infos().skip(result.infos.len());
    let infos: Vec<AbstractArray> = of_tangents.iter().chain(kept).cloned().collect();
    let backward = Backward {
        body: Body::new(RECORDER, backward, compile),
        tangents: of_tangents.len(),
        results: of_results,
    };
    let (linear, _, ()) = stage(RECORDER, &infos, |tensors| {
        (bind_all(&backward, &tensors), ())
    });
    Linearized::new(
        Body::new(RECORDER, known, compile),
        Body::new(RECORDER, linear, compile),
        result.infos.len(),
        has_tangent,
    )
}

/// Appends the tensors that `backward` captured to the residuals. Each of `jaxprs` takes these tensors as inputs, and
/// the last jaxpr, which computes the residuals, also returns them.
fn forward_captured(
    captured: &[Tensor],
    arguments: usize,
    jaxprs: &mut [Jaxpr],
    all: &mut Vec<Tensor>,
) {
    let mut places = HashMap::new();
    for (place, tensor) in all.iter().enumerate() {
        places.entry(tensor.handle()).or_insert(place);
    }
    for tensor in captured {
        let place = *places.entry(tensor.handle()).or_insert_with(|| {
            for jaxpr in jaxprs.iter_mut() {
                let input = jaxpr.unused_input(tensor.info().clone());
                jaxpr.inputs.push(input);
            }
            all.push(tensor.clone());
            all.len() - 1
        });
        let known = expect_some(jaxprs.last_mut(), "the known part");
        known.outputs.push(known.inputs[arguments + place]);
    }
}
