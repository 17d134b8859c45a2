//! `custom_vjp`: a function with a custom rule for its cotangents.

use std::collections::HashMap;
use std::panic::Location;
use std::sync::Arc;

use pytree_core::bug::{expect_some, pairs};
use pytree_core::graph;

use crate::base::dtype::AbstractArray;
use crate::executor::compile;
use crate::primitives::body::rules::bind_all;
use crate::primitives::body::{Body, Derivative, GivenRule, Linearized, chosen, in_places};
use crate::primitives::call::call;
use crate::primitives::create::or_zeros;
use crate::primitives::custom_vjp::Backward;
use crate::tensor::Tensor;
use crate::tensor::jaxpr::{Jaxpr, RESULTS};
use crate::tensor::stage::{stage, with_all_captured};
use crate::tensor::trace::{Recorder, at_line, at_own_lines, is_transforming};
use crate::tensor::traceable::{Traceable, rebuild};
use crate::transformations::custom::check::{Form, Recorded, record};
use crate::transformations::function::{call_reading, transformed};

/// Gives a function a custom gradient, as two functions.
///
/// `forward` returns the result and the residuals, which are the values that `backward` needs. `backward` takes the
/// residuals and the cotangent of the result, and returns the cotangent of the argument.
///
/// Higher-order derivatives differentiate both functions. Forward mode is not supported. For leaves that are not
/// floats, `backward` receives zeros as cotangents, and the cotangents that it returns are ignored. All three functions
/// may capture values, but are not differentiated with respect to them.
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
/// # Panics
/// Under a transformation, the returned function panics if `forward` returns a result that differs from the result of
/// `function` in structure, shapes or dtypes, or if the cotangent that `backward` returns differs from the argument.
#[track_caller]
pub fn custom_vjp<'f, A, R, S>(
    function: impl Fn(&A) -> R + Send + Sync + 'f,
    forward: impl Fn(&A) -> (R, S) + Send + Sync + 'f,
    backward: impl Fn(S, R) -> A + Send + Sync + 'f,
) -> CustomVjp<'f, A, R>
where
    A: Traceable,
    R: Traceable,
    S: Traceable,
{
    let line = Location::caller();
    CustomVjp {
        call: Box::new(move |argument| run(&function, &forward, &backward, argument, line)),
    }
}

/// The result of [`custom_vjp`]: the function with its rule.
pub struct CustomVjp<'f, A, R> {
    call: Box<dyn Fn(&A) -> R + Send + Sync + 'f>,
}
transformed!(reference [A: Traceable, R: Traceable] CustomVjp<'f, A, R>, (A) -> R);

const RECORDER: Recorder = Recorder::CustomVjp;

fn run<A: Traceable, R: Traceable, S: Traceable>(
    function: &impl Fn(&A) -> R,
    forward: &impl Fn(&A) -> (R, S),
    backward: &impl Fn(S, R) -> A,
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
    } = record(RECORDER, &form, function);
    let (known, known_captured, (value, residuals)) = stage(RECORDER, &form.infos, |tensors| {
        let (value, residuals) = call_reading(
            "`forward` of custom_vjp",
            &form.treedef,
            tensors,
            |argument: A| forward(&argument),
        );
        let (mut leaves, treedef) = graph::flatten::<Tensor, R>(&value);
        let value = Form::of(treedef, &leaves);
        let (residuals, treedef) = graph::flatten::<Tensor, S>(&residuals);
        let form = Form::of(treedef, &residuals);
        leaves.extend(residuals);
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
    let of_results: Vec<AbstractArray> = chosen(&result.infos, &has_tangent).cloned().collect();
    let of_tangents: Vec<AbstractArray> = chosen(&form.infos, &floats).cloned().collect();
    let infos = [residuals.infos.as_slice(), &of_results].concat();
    let (mut back, back_captured, mistake) = stage(RECORDER, &infos, |mut tensors| {
        let given = tensors.split_off(residuals.infos.len());
        let cotangents = pairs(in_places(given, &has_tangent), &result.infos, RESULTS)
            .map(|(cotangent, info)| or_zeros(cotangent.as_ref(), info))
            .collect();
        let residuals: S = rebuild(&residuals.treedef, tensors);
        let cotangent: R = rebuild(&result.treedef, cotangents);
        let cotangent = at_own_lines(|| backward(residuals, cotangent));
        let (leaves, treedef) = graph::flatten::<Tensor, A>(&cotangent);
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
    // Tensors that `backward` captured are passed to it as the last residuals.
    let captured_by_back = back.inputs.split_off(infos.len());
    let cotangents = back.inputs.split_off(residuals.infos.len());
    back.inputs.extend(captured_by_back);
    back.inputs.extend(cotangents);
    let recorded = vec![(jaxpr, captured), (known, known_captured)];
    let (mut jaxprs, mut all) = with_all_captured(operands.len(), recorded);
    forward_captured(&back_captured, operands.len(), &mut jaxprs, &mut all);
    let backward = Backward {
        body: Body::new(RECORDER, back, compile),
        tangents: of_tangents.len(),
        results: of_results,
    };
    let kept = residuals.infos.into_iter();
    let kept = kept.chain(back_captured.iter().map(|tensor| tensor.info().clone()));
    let infos: Vec<AbstractArray> = of_tangents.into_iter().chain(kept).collect();
    let (linear, _, ()) = stage(RECORDER, &infos, |tensors| {
        (bind_all(&backward, &tensors), ())
    });
    let (known, jaxpr) = (jaxprs.pop(), jaxprs.pop());
    let (Some(known), Some(jaxpr)) = (known, jaxpr) else {
        unreachable!("two functions are recorded")
    };
    let split = Linearized::new(
        Body::new(RECORDER, known, compile),
        Body::new(RECORDER, linear, compile),
        result.infos.len(),
        has_tangent,
    );
    let rule = GivenRule {
        split: Arc::new(split),
        arguments: operands.len(),
        forward: false,
    };
    let body = Body::with_derivative(RECORDER, jaxpr, Derivative::Given(rule), compile);
    operands.extend(all);
    let results = at_line(line, || call(&body, &operands));
    rebuild(&result.treedef, results)
}

/// Appends the tensors that `backward` captured to the residuals. All recorded functions take these tensors as inputs,
/// and the last function, which computes the residuals, returns them.
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
