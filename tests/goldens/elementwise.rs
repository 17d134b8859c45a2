//! Functions element by element and activations: values and derivatives, and both at their edges.

use pytree::nn::{
    celu, elu, gelu, gelu_exact, glu, hard_sigmoid, hard_silu, hard_tanh, leaky_relu, log_sigmoid,
    log_softmax, logsumexp, mish, relu, relu6, selu, sigmoid, silu, soft_sign, softmax, softplus,
    squareplus, standardize,
};
use pytree::{DType, Tensor, grad, jit};
use serde_json::Value;

use crate::goldens::cases::{check_file, check_nans};
use crate::goldens::files::{integers, read, tensor};
use crate::goldens::tolerance::{assert_close, assert_digits};
use crate::stablehlo::record::Group;

/// The function of a case in our words.
pub fn apply(name: &str, parameters: &Value, x: &[Tensor]) -> Tensor {
    match x {
        [x] => of_one(name, parameters, x),
        [x, y] => of_two(name, x, y),
        [x, low, high] => match name {
            "clamp_tensors" => x.clamp(low, high),
            "clip_tensors" => x.clip(low, high),
            other => panic!("no function for the case {other}"),
        },
        _ => panic!("{} tensors", x.len()),
    }
}

fn of_one(name: &str, parameters: &Value, x: &Tensor) -> Tensor {
    let axis = || parameters["axis"].as_i64().unwrap() as isize;
    let axes = || integers(&parameters["axes"]);
    let correction = || parameters["correction"].as_u64().unwrap() as usize;
    match name {
        "neg" => -x,
        "abs" => x.abs(),
        "sign" => x.sign(),
        "floor" => x.floor(),
        "ceil" => x.ceil(),
        "round" => x.round(),
        "round_half_away" => x.round_half_away(),
        "trunc" => x.trunc(),
        "exp" => x.exp(),
        "exp2" => x.exp2(),
        "expm1" => x.expm1(),
        "log" => x.log(),
        "log2" => x.log2(),
        "log10" => x.log10(),
        "log1p" => x.log1p(),
        "sqrt" => x.sqrt(),
        "rsqrt" => x.rsqrt(),
        "cbrt" => x.cbrt(),
        "square" => x.square(),
        "reciprocal" => x.reciprocal(),
        "sin" => x.sin(),
        "cos" => x.cos(),
        "tan" => x.tan(),
        "asin" => x.asin(),
        "acos" => x.acos(),
        "atan" => x.atan(),
        "sinh" => x.sinh(),
        "cosh" => x.cosh(),
        "tanh" => x.tanh(),
        "asinh" => x.asinh(),
        "acosh" => x.acosh(),
        "atanh" => x.atanh(),
        "logistic" => x.sigmoid(),
        "erf" => x.erf(),
        "erfc" => x.erfc(),
        "erf_inv" => x.erf_inv(),
        "deg2rad" => x.deg2rad(),
        "rad2deg" => x.rad2deg(),
        "nan_to_num" => x.nan_to_num(),
        "isnan" => x.isnan(),
        "isinf" => x.isinf(),
        "isfinite" => x.isfinite(),
        "powi" => x.powi(3),
        "not" => !x,
        "population_count" => x.population_count(),
        "clip" => x.clip(-1.0, 1.0),
        "clamp" => x.clamp(-1.0, 1.0),
        "relu" => relu(x),
        "relu6" => relu6(x),
        "leaky_relu" => leaky_relu(x, 0.125),
        "elu" => elu(x, 1.5),
        "celu" => celu(x, 1.5),
        "selu" => selu(x),
        "gelu" => gelu(x),
        "gelu_exact" => gelu_exact(x),
        "silu" => silu(x),
        "softplus" => softplus(x),
        "sigmoid" => sigmoid(x),
        "log_sigmoid" => log_sigmoid(x),
        "hard_sigmoid" => hard_sigmoid(x),
        "hard_silu" => hard_silu(x),
        "hard_tanh" => hard_tanh(x),
        "soft_sign" => soft_sign(x),
        "mish" => mish(x),
        "squareplus" => squareplus(x, 2.0),
        "glu" => glu(x, axis()),
        "softmax" => softmax(x, axis()),
        "log_softmax" => log_softmax(x, axis()),
        "logsumexp" => logsumexp(x, axis()),
        "standardize" => standardize(x, axis(), 1e-5),
        "var" => x.variance_with(axes(), correction()),
        "std" => x.standard_deviation_with(axes(), correction()),
        other => panic!("no function for the case {other}"),
    }
}

fn of_two(name: &str, x: &Tensor, y: &Tensor) -> Tensor {
    match name {
        "add" => x + y,
        "sub" => x - y,
        "mul" => x * y,
        "div" => x / y,
        "rem" => x.rem(y),
        "remainder" => x.remainder(y),
        "floor_divide" => x.floor_divide(y),
        "pow" => x.pow(y),
        "atan2" => x.atan2(y),
        "maximum" => x.maximum(y),
        "minimum" => x.minimum(y),
        "logaddexp" => x.logaddexp(y),
        "hypot" => x.hypot(y),
        "heaviside" => x.heaviside(y),
        "eq" => x.equal(y),
        "ne" => x.not_equal(y),
        "lt" => x.less(y),
        "le" => x.less_equal(y),
        "gt" => x.greater(y),
        "ge" => x.greater_equal(y),
        "and" => x & y,
        "or" => x | y,
        "xor" => x.bit_xor(y),
        "shift_left" => x.shift_left(y),
        "shift_right_logical" => x.shift_right(y),
        "shift_right_arithmetic" => x.shift_right_arithmetic(y),
        other => panic!("no function for the case {other}"),
    }
}

#[test]
fn every_function_is_as_in_jax() {
    check_file("elementwise.json", 250, apply);
}

/// A tensor as it is, by two operations that the executor joins with what comes before.
fn unchanged(x: &Tensor) -> Tensor {
    match x.dtype() {
        DType::Bool => !!x,
        _ => -(-x),
    }
}

/// Checks the elements whose operands and results are no NaN: no operation may be blamed for one.
fn check_nans_at_edges(f: &impl Fn(&Vec<Tensor>) -> Tensor, inputs: &[Tensor], expected: &Tensor) {
    if inputs.iter().any(|x| x.shape() != expected.shape()) {
        return;
    }
    let numbers = |x: &Tensor| x.convert(DType::F64).to_vec::<f64>();
    let all: Vec<Vec<f64>> = inputs.iter().chain([expected]).map(numbers).collect();
    let is_number = |&place: &usize| all.iter().all(|numbers| !numbers[place].is_nan());
    let places: Vec<i64> = (0..expected.len())
        .filter(is_number)
        .map(|place| place as i64)
        .collect();
    let places = Tensor::from(places);
    let x: Vec<Tensor> = inputs
        .iter()
        .map(|x| x.flatten().take(&places, 0))
        .collect();
    // The functions of a whole row give NaN, if the row has an infinity.
    let result = f(&x);
    check_nans(x.iter().chain([&result]), || f(&x));
}

fn check_edge(case: &Value, group: &mut Group) {
    let name = case["name"].as_str().unwrap().to_owned();
    let parameters = case["params"].clone();
    let what = format!("{name} of {}", case["dtype"]);
    let inputs: Vec<Tensor> = case["inputs"]
        .as_array()
        .unwrap()
        .iter()
        .map(tensor)
        .collect();
    let expected = tensor(&case["output"]);
    let f = move |x: &Vec<Tensor>| apply(&name, &parameters, x);
    let assert_same = |what: &str, found: &Tensor, expected: &Tensor| {
        if case["cancels"] == true {
            assert_close(what, found, expected);
        } else {
            assert_digits(what, &inputs, found, expected);
        }
    };
    assert_same(&what, &f(&inputs), &expected);
    check_nans_at_edges(&f, &inputs, &expected);
    let compiled = {
        let f = f.clone();
        jit(move |x: Vec<Tensor>| unchanged(&f(&x)))
    };
    let fused = compiled(inputs.clone());
    assert_same(&format!("{what}: fused"), &fused, &expected);
    let differentiated = case["gradients"].is_array();
    let of_edge = f.clone();
    let mut known = vec![expected.clone()];
    known.extend(gradients_of(case, &inputs));
    group.add_known(&what, &inputs, known, move |x| {
        let x = x.to_vec();
        let slopes = differentiated.then(|| grad(|x: &Vec<Tensor>| of_edge(x).sum())(&x));
        let slopes = slopes.map_or_else(Vec::new, |slopes| slopes.leaves().to_vec());
        [vec![of_edge(&x)], slopes].concat()
    });
    if differentiated {
        let gradients = gradients_of(case, &inputs);
        let found = grad(|x: &Vec<Tensor>| f(x).sum())(&inputs);
        for (position, (found, expected)) in found.leaves().iter().zip(gradients).enumerate() {
            let what = format!("{what}: gradient {position}");
            // The sign of a zero says nothing of a gradient.
            assert_same(&what, &(found + 0.0), &(expected + 0.0));
        }
    }
}

/// Returns the gradients of JAX, except those of `acosh` outside of its domain; see `docs/reference/for-jax-users.md`.
fn gradients_of(case: &Value, inputs: &[Tensor]) -> Vec<Tensor> {
    let gradients = case["gradients"]
        .as_array()
        .into_iter()
        .flatten()
        .map(tensor);
    if case["name"] != "acosh" {
        return gradients.collect();
    }
    let x = &inputs[0];
    let nan = Tensor::ones_like(x) * f64::NAN;
    gradients
        .map(|gradient| x.greater(-1.0).select(&gradient, &nan))
        .collect()
}

#[test]
fn every_function_matches_jax_at_edges() {
    let file = read("elementwise.json");
    let edges = file["edges"].as_array().unwrap();
    assert!(edges.len() > 500);
    let mut group = Group::new(100);
    let failures: Vec<String> = edges
        .iter()
        .filter_map(|case| {
            let check = std::panic::AssertUnwindSafe(|| check_edge(case, &mut group));
            std::panic::catch_unwind(check).err()
        })
        .map(|payload| {
            payload
                .downcast_ref::<String>()
                .cloned()
                .unwrap_or_else(|| "a panic".to_owned())
        })
        .collect();
    assert!(
        failures.is_empty(),
        "{} of {} edges differ:\n{}",
        failures.len(),
        edges.len(),
        failures.join("\n")
    );
}

#[test]
fn at_least_ninety_functions_are_compared() {
    let file = read("elementwise.json");
    let names: std::collections::BTreeSet<&str> = file["cases"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|case| case["name"].as_str())
        .collect();
    assert!(names.len() >= 90, "{}", names.len());
}
