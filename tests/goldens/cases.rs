//! Cases of operations: value, gradients of first and second order, jvp, and vmap over several axes.

use pytree::{Axes, Filter, Tensor, grad, jit, jvp, vmap};
use serde_json::Value;

use crate::files::{read, tensor};
use crate::tolerance::assert_close;

type Arguments = Vec<Tensor>;

/// The operation of a case, by its name and parameters, in our words.
pub type Apply = fn(&str, &Value, &[Tensor]) -> Tensor;

fn floats() -> Filter {
    Filter::predicate(|_, leaf| {
        leaf.array_info()
            .is_some_and(|info| info.element.is_float())
    })
}

/// The inner product of cotangents or tangents that are there.
fn inner(left: &[Tensor], right: &[Tensor]) -> Tensor {
    left.iter()
        .zip(right)
        .map(|(l, r)| (l * r).sum())
        .reduce(|sum, term| sum + term)
        .unwrap()
}

fn check_case(case: &Value, apply: Apply) {
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
    check_vmap(&what, case, &f);
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
    for (found, expected) in gradient(&x).leaves().iter().zip(some(&case["gradients"])) {
        assert_close(&format!("{what}: gradient"), found, &expected);
    }
    let slope = |x: &Arguments| inner(gradient(x).leaves(), &direction);
    for (found, expected) in grad(slope).wrt(floats())(&x)
        .leaves()
        .iter()
        .zip(some(&case["second"]))
    {
        assert_close(&format!("{what}: second derivative"), found, &expected);
    }
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

pub fn check_vmap(what: &str, case: &Value, f: &(impl Fn(&Arguments) -> Tensor + Send + Sync)) {
    for variant in case["vmap"].as_array().unwrap() {
        let inputs: Vec<Tensor> = variant["inputs"]
            .as_array()
            .unwrap()
            .iter()
            .map(tensor)
            .collect();
        let axes: Vec<Axes> = variant["in_axes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|axis| Axes::from(axis.as_i64().map(|axis| axis as i32)))
            .collect();
        let what = format!("{what}: vmap over {}", variant["in_axes"]);
        let expected = tensor(&variant["output"]);
        let mut inputs = inputs.into_iter();
        let mut next = || inputs.next().unwrap();
        let found = match axes.len() {
            1 => vmap(|(x,): (Tensor,)| f(&vec![x])).in_axes(Axes::Tuple(axes))((next(),)),
            2 => vmap(|(x, y): (Tensor, Tensor)| f(&vec![x, y])).in_axes(Axes::Tuple(axes))((
                next(),
                next(),
            )),
            _ => vmap(|(x, y, z): (Tensor, Tensor, Tensor)| f(&vec![x, y, z]))
                .in_axes(Axes::Tuple(axes))((next(), next(), next())),
        };
        assert_close(&what, &found, &expected);
    }
}

/// Compares every case of a file that has more than `least`.
pub fn check_file(file: &str, least: usize, apply: Apply) {
    let file = read(file);
    let cases = file["cases"].as_array().unwrap();
    assert!(cases.len() > least);
    let mut failures = Vec::new();
    for case in cases {
        let outcome = std::panic::catch_unwind(|| check_case(case, apply));
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
