//! Every operation: values, gradients of first and second order, jvp, and vmap over several axes.

use pytree::indexing::{Index, Step};
use pytree::nn::{gelu, log_softmax, logsumexp, mse, softmax, softmax_cross_entropy};
use pytree::{Axes, Filter, Tensor, grad, jit, jvp, vmap};
use serde_json::Value;

use crate::files::{dtype, integers, lengths, read, tensor};
use crate::tolerance::assert_close;

type Arguments = Vec<Tensor>;

/// The operation of a case in our words.
fn apply(name: &str, parameters: &Value, x: &[Tensor]) -> Tensor {
    let axes = || integers(&parameters["axes"]);
    let axis = || parameters["axis"].as_i64().unwrap() as isize;
    match name {
        "neg" => -&x[0],
        "exp" => x[0].exp(),
        "log" => x[0].log(),
        "tanh" => x[0].tanh(),
        "sin" => x[0].sin(),
        "cos" => x[0].cos(),
        "sqrt" => x[0].sqrt(),
        "logistic" => x[0].sigmoid(),
        "erf_inv" => x[0].erf_inv(),
        "abs" => x[0].abs(),
        "relu" => x[0].relu(),
        "gelu_tanh" => gelu(&x[0]),
        "integer_pow" => x[0].powi(parameters["y"].as_i64().unwrap() as i32),
        "add" => &x[0] + &x[1],
        "sub" => &x[0] - &x[1],
        "mul" => &x[0] * &x[1],
        "div" => &x[0] / &x[1],
        "maximum" => x[0].maximum(&x[1]),
        "minimum" => x[0].minimum(&x[1]),
        "eq" => x[0].equal(&x[1]),
        "ne" => x[0].not_equal(&x[1]),
        "lt" => x[0].less(&x[1]),
        "le" => x[0].less_equal(&x[1]),
        "gt" => x[0].greater(&x[1]),
        "ge" => x[0].greater_equal(&x[1]),
        "select" => x[0].select(&x[1], &x[2]),
        "xor" => x[0].bit_xor(&x[1]),
        "and" => &x[0] & &x[1],
        "or" => &x[0] | &x[1],
        "shift_right_logical" => x[0].shift_right(&x[1]),
        "convert" => x[0].convert(dtype(parameters["dtype"].as_str().unwrap())),
        "sum" => x[0].sum_axes(axes()),
        "reduce_max" => x[0].max_axes(axes()),
        "argmax" => x[0].argmax(axis()),
        "mean" => x[0].mean_axes(axes()),
        "var" => x[0].variance_axes(axes()),
        "matmul" => x[0].matmul(&x[1]),
        "transpose" => x[0].transpose(lengths(&parameters["perm"])),
        "reshape" => x[0].reshape(lengths(&parameters["shape"])),
        "broadcast" => x[0].broadcast_to(lengths(&parameters["shape"])),
        "take" => x[0].take(&x[1], axis()),
        "slice" => {
            let bounds = integers(&parameters["start"])
                .into_iter()
                .zip(integers(&parameters["limit"]));
            let indices: Vec<Index> = bounds
                .zip(integers(&parameters["strides"]))
                .map(|((start, limit), stride)| Index::from(Step(start..limit, stride)))
                .collect();
            x[0].index(indices)
        }
        "pad" => {
            let padding: Vec<(isize, isize, usize)> = integers(&parameters["low"])
                .into_iter()
                .zip(integers(&parameters["high"]))
                .zip(lengths(&parameters["interior"]))
                .map(|((low, high), interior)| (low, high, interior))
                .collect();
            x[0].pad(parameters["value"].as_f64().unwrap(), padding)
        }
        "concatenate" => Tensor::concatenate(x, axis()),
        "softmax" => softmax(&x[0], axis()),
        "log_softmax" => log_softmax(&x[0], axis()),
        "logsumexp" => logsumexp(&x[0], axis()),
        "softmax_cross_entropy_with_integer_labels" => softmax_cross_entropy(&x[0], &x[1]).mean(),
        "mse" => mse(&x[0], &x[1]),
        other => panic!("no operation for the case {other}"),
    }
}

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

fn check_case(case: &Value) {
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
    let gradient = grad(loss).wrt(floats());
    for (found, expected) in gradient(&x).leaves().iter().zip(some(&case["gradients"])) {
        assert_close(&format!("{what}: gradient"), found, &expected);
    }
    let direction = some(&case["direction"]);
    if direction.is_empty() {
        return;
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

fn check_vmap(what: &str, case: &Value, f: &(impl Fn(&Arguments) -> Tensor + Send + Sync)) {
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

#[test]
fn every_operation_is_as_in_jax() {
    let file = read("ops.json");
    let cases = file["cases"].as_array().unwrap();
    assert!(cases.len() > 150);
    let mut failures = Vec::new();
    for case in cases {
        let outcome = std::panic::catch_unwind(|| check_case(case));
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
