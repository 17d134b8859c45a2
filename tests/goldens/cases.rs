//! Cases of operations: value, gradients of first and second order, jvp, and vmap over several axes.

use pytree::debug::debug_nans;
use pytree::{Axes, DType, Filter, Tensor, grad, jit, jvp, vmap};
use serde_json::Value;

use crate::goldens::files::{read, tensor};
use crate::goldens::tolerance::assert_close;
use crate::stablehlo::device::{device, loses_nan};
use crate::stablehlo::record::Group;

type Arguments = Vec<Tensor>;

/// The operation of a case, by its name and parameters, in our words.
pub type Apply = fn(&str, &Value, &[Tensor]) -> Tensor;

fn floats() -> Filter {
    Filter::predicate(|_, leaf| {
        leaf.array_info()
            .is_some_and(|info| info.element.is_float())
    })
}

/// Runs a function again while results are checked: if neither its arguments nor what is expected has a NaN, then no operation
/// may be blamed for one.
pub fn check_nans<'a, R>(values: impl IntoIterator<Item = &'a Tensor>, run: impl FnOnce() -> R) {
    let has_nan = |x: &Tensor| {
        x.convert(DType::F64)
            .to_vec::<f64>()
            .into_iter()
            .any(f64::is_nan)
    };
    // The checks run on the host.
    if device().is_none() && !values.into_iter().any(has_nan) {
        debug_nans(|| drop(run()));
    }
}

/// The inner product of cotangents or tangents that are there.
fn inner(left: &[Tensor], right: &[Tensor]) -> Tensor {
    left.iter()
        .zip(right)
        .map(|(l, r)| (l * r).sum())
        .reduce(|sum, term| sum + term)
        .unwrap()
}

fn check_case(case: &Value, apply: Apply, group: Option<&mut Group>) {
    let name = case["name"].as_str().unwrap().to_owned();
    let parameters = case["params"].clone();
    let what = format!("{name} {parameters} of {}", case["dtype"]);
    let x: Arguments = case["inputs"]
        .as_array()
        .unwrap()
        .iter()
        .map(tensor)
        .collect();
    let f = {
        let (name, parameters) = (name.clone(), parameters.clone());
        move |x: &Arguments| apply(&name, &parameters, x)
    };
    let expected = tensor(&case["output"]);
    assert_close(&format!("{what}: value"), &f(&x), &expected);
    let compiled = {
        let f = f.clone();
        jit(move |x: Arguments| f(&x))
    };
    assert_close(&format!("{what}: jit"), &compiled(x.clone()), &expected);
    check_nans(x.iter().chain([&expected]), || (f(&x), compiled(x.clone())));
    check_vmap(&what, case, &f);
    if let Some(group) = group {
        record_case(&what, case, &x, f.clone(), group);
    }
    if case.get("weights").is_none_or(Value::is_null) {
        return;
    }
    let weights = tensor(&case["weights"]);
    let loss = |x: &Arguments| (f(x) * &weights).sum();
    let some = |values: &Value| -> Vec<Tensor> {
        values
            .as_array()
            .unwrap()
            .iter()
            .filter(|value| !value.is_null())
            .map(tensor)
            .collect()
    };
    let direction = some(&case["direction"]);
    if direction.is_empty() {
        return;
    }
    let gradient = grad(loss).wrt(floats());
    let gradients = some(&case["gradients"]);
    for (found, expected) in gradient(&x).leaves().iter().zip(&gradients) {
        assert_close(&format!("{what}: gradient"), found, expected);
    }
    let known = || x.iter().chain([&expected]);
    check_nans(known().chain(&gradients), || gradient(&x));
    let slope = |x: &Arguments| inner(gradient(x).leaves(), &direction);
    let curvature = grad(slope).wrt(floats());
    let second = some(&case["second"]);
    for (found, expected) in curvature(&x).leaves().iter().zip(&second) {
        assert_close(&format!("{what}: second derivative"), found, expected);
    }
    check_nans(known().chain(&gradients).chain(&second), || curvature(&x));
    let tangents: Arguments = case["direction"]
        .as_array()
        .unwrap()
        .iter()
        .zip(&x)
        .map(|(direction, x)| {
            if direction.is_null() {
                x.clone()
            } else {
                tensor(direction)
            }
        })
        .collect();
    assert_close(
        &format!("{what}: jvp"),
        &jvp(&f, &x, &tangents).1,
        &tensor(&case["jvp"]),
    );
}

/// The function of a case over the axes of a variant, of the variant's inputs.
fn mapped(
    f: &(impl Fn(&Arguments) -> Tensor + Send + Sync),
    axes: &[Option<i32>],
    inputs: &[Tensor],
) -> Tensor {
    let axes = Axes::Tuple(axes.iter().map(|axis| Axes::from(*axis)).collect());
    let next = |place: usize| inputs[place].clone();
    match inputs.len() {
        1 => vmap(|(x,): (Tensor,)| f(&vec![x])).in_axes(axes)((next(0),)),
        2 => vmap(|(x, y): (Tensor, Tensor)| f(&vec![x, y])).in_axes(axes)((next(0), next(1))),
        _ => vmap(|(x, y, z): (Tensor, Tensor, Tensor)| f(&vec![x, y, z])).in_axes(axes)((
            next(0),
            next(1),
            next(2),
        )),
    }
}

/// The axes and the inputs of a variant.
fn variant_of(variant: &Value) -> (Vec<Option<i32>>, Vec<Tensor>) {
    let list = |name: &str| variant[name].as_array().unwrap().iter();
    let axes = list("in_axes").map(|axis| axis.as_i64().map(|axis| axis as i32));
    (axes.collect(), list("inputs").map(tensor).collect())
}

pub fn check_vmap(what: &str, case: &Value, f: &(impl Fn(&Arguments) -> Tensor + Send + Sync)) {
    for variant in case["vmap"].as_array().unwrap() {
        let (axes, inputs) = variant_of(variant);
        let what = format!("{what}: vmap over {}", variant["in_axes"]);
        assert_close(
            &what,
            &mapped(f, &axes, &inputs),
            &tensor(&variant["output"]),
        );
    }
}

/// Records the value of a case, its derivatives and its variants.
pub fn record_case(
    what: &str,
    case: &Value,
    x: &[Tensor],
    f: impl Fn(&Arguments) -> Tensor + Clone + Send + Sync + 'static,
    group: &mut Group,
) {
    for variant in case["vmap"].as_array().unwrap() {
        let (axes, inputs) = variant_of(variant);
        let f = f.clone();
        let what = format!("{what}: vmap over {}", variant["in_axes"]);
        let expected = vec![tensor(&variant["output"])];
        group.add_known(what, &inputs, expected, move |x| vec![mapped(&f, &axes, x)]);
    }
    let has = |name: &str| case.get(name).is_some_and(|value| !value.is_null());
    let directions: Vec<Option<Tensor>> = (case["direction"].as_array().into_iter().flatten())
        .map(|value| (!value.is_null()).then(|| tensor(value)))
        .collect();
    let is_nan_lost =
        case["params"]["values"] == "nan" && loses_nan(case["name"].as_str().unwrap_or_default());
    let is_differentiated = has("weights") && has("gradients");
    let reverse = is_differentiated && !is_nan_lost && directions.iter().any(Option::is_some);
    let weights = reverse.then(|| tensor(&case["weights"]));
    let forward = has("jvp") && directions.len() == x.len();
    let mut expected = vec![tensor(&case["output"])];
    if reverse {
        for derivatives in ["gradients", "second"] {
            let list = case[derivatives].as_array().into_iter().flatten();
            expected.extend(list.filter(|value| !value.is_null()).map(tensor));
        }
    }
    if forward {
        expected.push(tensor(&case["jvp"]));
    }
    let what = format!("{what}: value and derivatives");
    group.add_known(what, x, expected, move |x| {
        let x = x.to_vec();
        let mut results = vec![f(&x)];
        if let Some(weights) = &weights {
            let slopes =
                |x: &Arguments| grad(|x: &Arguments| (f(x) * weights).sum()).wrt(floats())(x);
            let known: Vec<Tensor> = directions.iter().flatten().cloned().collect();
            let along = |x: &Arguments| inner(slopes(x).leaves(), &known);
            results.extend(slopes(&x).leaves().iter().cloned());
            results.extend(grad(along).wrt(floats())(&x).leaves().iter().cloned());
        }
        if forward {
            let tangents = x.iter().zip(&directions);
            let tangents =
                tangents.map(|(x, direction)| direction.clone().unwrap_or_else(|| x.clone()));
            results.push(jvp(&f, &x, &tangents.collect()).1);
        }
        results
    });
}

/// Compares every case of a file that has more than `least`.
pub fn check_file(file: &str, least: usize, apply: Apply) {
    let file = read(file);
    check_cases(&file["cases"], least, apply, Some(Group::new(40)));
}

/// Compares every case of a list that has more than `least`. Records the programs if there is a group.
pub fn check_cases(cases: &Value, least: usize, apply: Apply, mut group: Option<Group>) {
    let cases = cases.as_array().unwrap();
    assert!(cases.len() > least);
    let mut failures = Vec::new();
    for case in cases {
        let check = std::panic::AssertUnwindSafe(|| check_case(case, apply, group.as_mut()));
        let outcome = std::panic::catch_unwind(check);
        if let Err(payload) = outcome {
            let message = payload
                .downcast_ref::<String>()
                .cloned()
                .unwrap_or_else(|| "a panic".to_owned());
            failures.push(format!(
                "{} {} {}: {message}",
                case["name"], case["dtype"], case["params"]
            ));
        }
    }
    assert!(
        failures.is_empty(),
        "{} of {} cases fail:\n{}",
        failures.len(),
        cases.len(),
        failures.join("\n")
    );
}
