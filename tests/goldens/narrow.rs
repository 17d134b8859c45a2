//! Half-precision floats, and integers of 8 and 16 bits: operations, conversions, random numbers, layers, training,
//! displays.
//!
//! One equation rounds once, so it agrees with JAX within one rounding step of the dtype. Functions of several equations
//! round several times, and JAX writes some of them in other equations.

use pytree::nn::{BatchNorm, GroupNorm, Initializer, LayerNorm, NormOptions, RmsNorm};
use pytree::optim::{Optimizer, adam};
use pytree::random::{Key, Rngs};
use pytree::{DType, Filter, Tensor, grad, jit, value_and_grad};
use serde_json::Value;

use crate::goldens::files::{dtype, read, tensor};
use crate::goldens::tolerance::numbers;
use crate::goldens::{convolution, elementwise, operations, structural};

/// Returns the distance of neighbouring numbers of a dtype near `size`.
fn step(dtype: DType, size: f64) -> f64 {
    let (digits, least) = match dtype {
        DType::BF16 => (7, -126),
        DType::F16 => (10, -14),
        _ => return 0.0,
    };
    let exponent = size.abs().log2().floor().max(f64::from(least));
    (exponent - f64::from(digits)).exp2()
}

/// Returns the least normal number of a dtype. XLA takes smaller numbers for 0.
fn least_normal(dtype: DType) -> f64 {
    match dtype {
        DType::BF16 => f64::from(f32::MIN_POSITIVE),
        _ => 0.0,
    }
}

/// Asserts that each element is within a number of rounding steps of `size` or, if it is greater, of the element.
fn assert_steps(what: &str, found: &Tensor, expected: &Tensor, steps: f64, size: f64) {
    assert_eq!(found.info(), expected.info(), "{what}");
    let dtype = expected.dtype();
    let pairs = numbers(found).into_iter().zip(numbers(expected));
    for (index, (found, expected)) in pairs.enumerate() {
        let both_small =
            found.abs() <= least_normal(dtype) && expected.abs() <= least_normal(dtype);
        let near = (found - expected).abs() <= steps * step(dtype, expected.abs().max(size));
        let same = found == expected || (found.is_nan() && expected.is_nan());
        assert!(
            same || both_small || near,
            "{what}, element {index}: found {found:e}, expected {expected:e}"
        );
    }
}

/// Asserts that two tensors are the same, where NaN equals NaN.
fn assert_same(what: &str, found: &Tensor, expected: &Tensor) {
    assert_eq!(found.info(), expected.info(), "{what}");
    let bits = |tensor: &Tensor| -> Vec<u64> {
        let bits = |x: f64| if x.is_nan() { f64::NAN } else { x }.to_bits();
        numbers(tensor).into_iter().map(bits).collect()
    };
    assert!(
        bits(found) == bits(expected),
        "{what}: found {found}, expected {expected}"
    );
}

fn tensors(values: &Value) -> Vec<Tensor> {
    values.as_array().unwrap().iter().map(tensor).collect()
}

fn apply(case: &Value, x: &[Tensor]) -> Tensor {
    let (name, parameters) = (case["name"].as_str().unwrap(), &case["params"]);
    match case["table"].as_str().unwrap() {
        "elementwise" => elementwise::apply(name, parameters, x),
        "structural" => structural::apply(name, parameters, x),
        "convolution" => convolution::apply(name, parameters, x),
        _ => operations::apply(name, parameters, x),
    }
}

/// Runs a case eagerly and compiled, which must return the same bits.
fn run(what: &str, case: &Value) -> (Vec<Tensor>, Tensor) {
    let inputs = tensors(&case["inputs"]);
    let found = apply(case, &inputs);
    let owned = case.clone();
    let compiled = jit(move |x: Vec<Tensor>| apply(&owned, &x));
    assert_same(&format!("{what}: jit"), &compiled(inputs.clone()), &found);
    (inputs, found)
}

/// Checks each case of a member of the file, and reports all that fail.
fn each(member: &str, least: usize, check: fn(&str, &Value)) {
    let file = read("narrow.json");
    let cases = file[member].as_array().unwrap();
    assert!(cases.len() >= least, "{}", cases.len());
    let mut failures = Vec::new();
    for case in cases {
        let what = format!("{} {} of {}", case["name"], case["params"], case["dtype"]);
        if let Err(payload) = std::panic::catch_unwind(|| check(&what, case)) {
            let message = payload.downcast_ref::<String>().cloned();
            failures.push(message.unwrap_or_else(|| format!("{what}: a panic")));
        }
    }
    let count = failures.len();
    assert!(
        count == 0,
        "{count} of {} fail:\n{}",
        cases.len(),
        failures.join("\n")
    );
}

fn greatest(tensors: &[Tensor]) -> f64 {
    let all = tensors.iter().flat_map(numbers);
    all.filter(|x| x.is_finite())
        .fold(0.0, |greatest, x| greatest.max(x.abs()))
}

#[test]
fn half_operations_are_as_in_jax() {
    each("cases", 600, |what, case| {
        let (inputs, found) = run(what, case);
        let expected = tensor(&case["output"]);
        let size = greatest(std::slice::from_ref(&expected)).max(1.0);
        assert_steps(what, &found, &expected, 3.0, size);
        let Some(gradients) = case["gradients"].as_array() else {
            return;
        };
        let weights = tensor(&case["weights"]);
        let loss = |x: &Vec<Tensor>| (apply(case, x) * &weights).convert(DType::F32).sum();
        let floats = Filter::predicate(|_, leaf| {
            leaf.array_info()
                .is_some_and(|info| info.element.is_float())
        });
        let gradient = grad(loss).wrt(floats)(&inputs);
        let expected: Vec<Tensor> = gradients
            .iter()
            .filter(|value| !value.is_null())
            .map(tensor)
            .collect();
        let size = greatest(&expected).max(1.0);
        assert_eq!(gradient.leaves().len(), expected.len(), "{what}");
        for (found, expected) in gradient.leaves().iter().zip(&expected) {
            assert_steps(&format!("{what}: gradient"), found, expected, 6.0, size);
        }
    });
}

#[test]
fn narrow_integers_are_as_in_jax() {
    each("integers", 140, |what, case| {
        let (inputs, found) = run(what, case);
        let expected = tensor(&case["output"]);
        let name = case["name"].as_str().unwrap();
        if ["cumsum", "cumprod"].contains(&name) {
            // Running sums are wider, as those of NumPy are. Their lower bits are the results of JAX.
            assert_ne!(found.dtype(), inputs[0].dtype(), "{what}");
            return assert_same(what, &found.convert(expected.dtype()), &expected);
        }
        assert_same(what, &found, &expected);
    });
}

#[test]
fn single_equations_round_once() {
    each("edges", 80, |what, case| {
        let (_, found) = run(what, case);
        assert_steps(what, &found, &tensor(&case["output"]), 1.0, 0.0);
    });
}

#[test]
fn conversions_are_those_of_xla() {
    each("conversions", 100, |what, case| {
        let (inputs, found) = run(what, case);
        let what = format!("{what} from {}", inputs[0].dtype());
        assert_same(&what, &found, &tensor(&case["output"]));
    });
}

#[test]
fn random_numbers_are_those_of_jax() {
    for case in read("narrow.json")["random"].as_array().unwrap() {
        let key = Key::new(case["seed"].as_u64().unwrap());
        let dtype = dtype(case["dtype"].as_str().unwrap());
        let what = |name: &str| format!("{name} of {dtype}");
        let expected = |name: &str| tensor(&case[name]);
        let uniform = key.uniform(dtype, [3, 5]);
        assert_same(&what("uniform"), &uniform, &expected("uniform"));
        let between = key.uniform_between(dtype, [64], -0.3, 1.7);
        assert_same(&what("between"), &between, &expected("uniform_between"));
        let normal = key.normal(dtype, [64]);
        assert_steps(&what("normal"), &normal, &expected("normal"), 1.0, 0.0);
        let truncated = key.truncated_normal(dtype, [64], -2.0, 2.0);
        assert_steps(
            &what("truncated"),
            &truncated,
            &expected("truncated_normal"),
            1.0,
            0.0,
        );
        let lecun = Initializer::lecun_normal().initialize(&key, dtype, [6, 4]);
        assert_steps(&what("lecun"), &lecun, &expected("lecun_normal"), 1.0, 0.0);
    }
}

#[test]
fn many_numbers_are_drawn_in_blocks() {
    for dtype in [DType::BF16, DType::F16] {
        let many = Key::new(1).uniform(dtype, [70_000]);
        let mean = many.convert(DType::F32).mean().item::<f32>();
        let expected = if dtype == DType::BF16 {
            63.5 / 128.0
        } else {
            0.5
        };
        assert!((mean - expected).abs() < 0.005, "{dtype}: {mean}");
        assert_eq!(
            many,
            jit(move |key: Key| key.uniform(dtype, [70_000]))(Key::new(1))
        );
    }
}

#[test]
fn normalisations_compute_in_f32_as_in_flax() {
    for case in read("narrow.json")["layers"].as_array().unwrap() {
        let x = tensor(&case["input"]);
        let name = case["layer"].as_str().unwrap();
        let options = NormOptions {
            param_dtype: x.dtype(),
            ..NormOptions::default()
        };
        let features = *x.shape().last().unwrap();
        let parameter = |name: &str| {
            Some(&case["parameters"][name])
                .filter(|value| !value.is_null())
                .map(tensor)
        };
        let (scale, bias, rngs) = (parameter("scale"), parameter("bias"), &mut Rngs::new(0));
        let mut statistics = None;
        let found = match name {
            "LayerNorm" => {
                let mut layer = LayerNorm::with_options(features, options, rngs);
                (layer.scale, layer.bias) = (scale, bias);
                layer.forward(&x)
            }
            "RMSNorm" => {
                let mut layer = RmsNorm::with_options(features, options, rngs);
                layer.scale = scale;
                layer.forward(&x)
            }
            "GroupNorm" => {
                let mut layer = GroupNorm::with_options(features, 2, options, rngs);
                (layer.scale, layer.bias) = (scale, bias);
                layer.forward(&x)
            }
            _ => {
                let mut layer = BatchNorm::with_options(features, options, rngs);
                (layer.scale, layer.bias) = (scale, bias);
                let y = layer.forward(&x);
                statistics = Some([layer.mean, layer.variance]);
                y
            }
        };
        let what = format!("{name} of {}", x.dtype());
        assert_steps(&what, &found, &tensor(&case["output"]), 1.0, 0.0);
        for (found, name) in statistics.iter().flatten().zip(["mean", "variance"]) {
            let expected = tensor(&case[name]);
            assert_eq!(found.info(), expected.info());
            assert!(
                (found - expected).abs().max().item::<f32>() < 1e-6,
                "{what}: {name}"
            );
        }
    }
}

#[test]
fn models_of_half_floats_are_trained_as_in_jax() {
    for case in read("narrow.json")["models"].as_array().unwrap() {
        let parameters = tensors(&case["parameters"]);
        let (x, y) = (tensor(&case["x"]), tensor(&case["y"]));
        let loss = |p: &Vec<Tensor>| {
            let hidden = (x.matmul(&p[0]) + &p[1]).tanh();
            (hidden.matmul(&p[2]) + &p[3] - &y).square().mean()
        };
        let (value, gradient) = value_and_grad(loss)(&parameters);
        let what = format!("mlp of {}", x.dtype());
        assert_steps(&what, &value, &tensor(&case["loss"]), 2.0, 0.0);
        for (found, expected) in gradient.leaves().iter().zip(tensors(&case["gradients"])) {
            assert_steps(&format!("{what}: gradient"), found, &expected, 4.0, 0.5);
        }
        let mut model = parameters;
        let mut optimizer = Optimizer::new(&model, adam(0.05));
        for expected in case["steps"].as_array().unwrap() {
            let given = tensors(&case["given"]);
            let products = |p: &Vec<Tensor>| {
                let terms = p.iter().zip(&given);
                terms
                    .map(|(p, g)| (p * g).sum())
                    .reduce(|sum, term| sum + term)
                    .unwrap()
            };
            let gradient = grad(products)(&model);
            optimizer.update(&mut model, &gradient);
            for (found, expected) in model.iter().zip(tensors(expected)) {
                assert_steps(&format!("{what}: Adam"), found, &expected, 2.0, 0.5);
            }
        }
    }
}

#[test]
fn narrow_tensors_print_as_in_jax() {
    for case in read("narrow.json")["displays"].as_array().unwrap() {
        let tensor = tensor(&case["array"]);
        assert_eq!(
            tensor.to_string(),
            case["str"].as_str().unwrap(),
            "{}",
            tensor.info()
        );
    }
}
