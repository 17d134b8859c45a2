//! Random numbers and initializers against figures of JAX.

use pytree_nn::{Distribution, Fan, FanAxes, Initializer, Key, Replacement};
use pytree_transform::{DType, Tensor, jit, vmap};
use serde_json::Value;

use crate::support::{close, golden, number, tensor};

fn lengths(value: &Value) -> Vec<usize> {
    let lengths = value.as_array().unwrap().iter();
    lengths
        .map(|n| usize::try_from(n.as_u64().unwrap()).unwrap())
        .collect()
}

fn drawn(key: &Key, case: &Value, inputs: &[Tensor]) -> Tensor {
    let (params, expected) = (&case["params"], tensor(&case["numbers"]));
    let (dtype, shape) = (expected.dtype(), expected.shape());
    match case["name"].as_str().unwrap() {
        "bits" => key.bits_of(dtype, shape),
        "randint" => {
            let [low, high] = ["low", "high"].map(|bound| params[bound].as_i64().unwrap());
            key.randint_of(dtype, shape, low, high)
        }
        "exponential" => key.exponential(dtype, shape),
        "gumbel" => key.gumbel(dtype, shape),
        "laplace" => key.laplace(dtype, shape),
        "logistic" => key.logistic(dtype, shape),
        "rademacher" => key.rademacher(dtype, shape),
        "gamma" => key.gamma(&inputs[0], shape),
        "loggamma" => key.loggamma(&inputs[0], shape),
        "beta" => key.beta(&inputs[0], &inputs[1], shape),
        "poisson" => key.poisson(&inputs[0], shape),
        "multivariate_normal" => {
            key.multivariate_normal(&inputs[0], &inputs[1], lengths(&params["shape"]))
        }
        "orthogonal" => key.orthogonal(dtype, shape[0], shape[1]),
        "categorical" => match lengths(&params["prefix"]).as_slice() {
            [] => key.categorical(&inputs[0], []),
            &[count] => key.categorical(&inputs[0], [count]),
            other => panic!("the prefix {other:?}"),
        },
        "choice" => {
            let replacement = if params["replace"] == Value::Bool(true) {
                Replacement::With
            } else {
                Replacement::Without
            };
            key.choice(6, shape, inputs.first(), replacement)
        }
        other => panic!("no distribution `{other}`"),
    }
}

/// Integers are compared exactly, and floats relative to the largest number near them: sums and logarithms near 0 lose
/// digits.
#[track_caller]
fn same(found: &Tensor, expected: &Tensor, what: &str) {
    assert_eq!(found.info(), expected.info(), "{what}");
    if !expected.dtype().is_float() {
        assert_eq!(found, expected, "{what}");
        return;
    }
    let unit = if expected.dtype() == DType::F64 {
        1e-13
    } else {
        2e-6
    };
    let numbers = |tensor: &Tensor| tensor.convert(DType::F64).to_vec::<f64>();
    for (found, expected) in numbers(found).into_iter().zip(numbers(expected)) {
        let allowed = unit * expected.abs().max(1.0);
        assert!(
            (found - expected).abs() <= allowed,
            "{what}: found {found}, expected {expected}"
        );
    }
}

#[test]
fn draws_match_jax_also_compiled() {
    let file = golden("draws");
    let cases = file["draws"].as_array().unwrap();
    assert!(cases.len() > 170);
    for case in cases {
        let seed = case["seed"].as_u64().unwrap();
        let what = format!(
            "{} of {} for {} from {seed}",
            case["name"], case["dtype"], case["params"]
        );
        let inputs: Vec<Tensor> = case["inputs"]
            .as_array()
            .unwrap()
            .iter()
            .map(tensor)
            .collect();
        let expected = tensor(&case["numbers"]);
        same(&drawn(&Key::new(seed), case, &inputs), &expected, &what);
        let compiled = {
            let case = case.clone();
            jit(move |(key, inputs): (Key, Vec<Tensor>)| drawn(&key, &case, &inputs))
        };
        same(
            &compiled((Key::new(seed), inputs)),
            &expected,
            &format!("compiled {what}"),
        );
    }
}

#[test]
fn draws_of_mapped_keys_are_those_of_single_keys() {
    let keys = Key::new(3).split(3);
    let stacked = Key::new(3).split_stacked(3);
    let concentration = Tensor::from([0.3_f32, 2.0]);
    let rate = Tensor::from([2.0_f32, 40.0]);
    let weights = Tensor::from([1.0_f32, 2.0, 3.0]);
    let draws = |key: &Key| {
        vec![
            key.gamma(&concentration, [2]),
            key.poisson(&rate, [2]).convert(DType::F32),
            key.orthogonal(DType::F32, 3, 2),
            key.choice(3, [2], Some(&weights), Replacement::Without)
                .convert(DType::F32),
            key.randint_of(DType::I64, [2], -5, 1 << 40)
                .convert(DType::F32),
        ]
    };
    let mapped = vmap(|key: Key| draws(&key))(stacked);
    for (position, key) in keys.iter().enumerate() {
        let position = Tensor::from(i32::try_from(position).unwrap());
        for (single, mapped) in draws(key).iter().zip(&mapped) {
            close(&mapped.take(&position, 0), single, 1e-5, "a mapped draw");
        }
    }
}

fn axes(value: &Value) -> Option<Vec<isize>> {
    let axes = value.as_array()?.iter();
    Some(
        axes.map(|axis| isize::try_from(axis.as_i64().unwrap()).unwrap())
            .collect(),
    )
}

fn initializer(case: &Value) -> Initializer {
    let params = &case["params"];
    let scale = || number(&params["scale"]);
    let column_axis = || isize::try_from(params["column_axis"].as_i64().unwrap()).unwrap();
    match case["name"].as_str().unwrap() {
        "variance_scaling" => Initializer::VarianceScaling {
            scale: scale(),
            fan: match params["mode"].as_str().unwrap() {
                "fan_in" => Fan::In,
                "fan_out" => Fan::Out,
                "fan_avg" => Fan::Average,
                _ => Fan::GeometricAverage,
            },
            distribution: match params["distribution"].as_str().unwrap() {
                "truncated_normal" => Distribution::TruncatedNormal,
                "normal" => Distribution::Normal,
                _ => Distribution::Uniform,
            },
        },
        "glorot_normal" => Initializer::glorot_normal(),
        "glorot_uniform" => Initializer::glorot_uniform(),
        "xavier_normal" => Initializer::xavier_normal(),
        "xavier_uniform" => Initializer::xavier_uniform(),
        "lecun_normal" => Initializer::lecun_normal(),
        "lecun_uniform" => Initializer::lecun_uniform(),
        "he_normal" => Initializer::he_normal(),
        "he_uniform" => Initializer::he_uniform(),
        "kaiming_normal" => Initializer::kaiming_normal(),
        "kaiming_uniform" => Initializer::kaiming_uniform(),
        "constant" => Initializer::Constant(number(&params["value"])),
        "truncated_normal" => Initializer::TruncatedNormalBetween {
            deviation: number(&params["stddev"]),
            low: number(&params["lower"]),
            high: number(&params["upper"]),
        },
        "orthogonal" => Initializer::Orthogonal {
            scale: scale(),
            column_axis: column_axis(),
        },
        "delta_orthogonal" => Initializer::DeltaOrthogonal {
            scale: scale(),
            column_axis: column_axis(),
        },
        other => panic!("no initializer `{other}`"),
    }
}

#[test]
fn initializers_match_jax_with_all_axes() {
    let file = golden("draws");
    let cases = file["initializers"].as_array().unwrap();
    assert!(cases.len() > 100);
    for case in cases {
        let params = &case["params"];
        let [inputs, outputs, batch] =
            ["in_axis", "out_axis", "batch_axis"].map(|name| axes(&params[name]));
        let default = FanAxes::default();
        let axes = FanAxes {
            inputs: inputs.as_deref().unwrap_or(default.inputs),
            outputs: outputs.as_deref().unwrap_or(default.outputs),
            batch: batch.as_deref().unwrap_or(default.batch),
        };
        let expected = tensor(&case["output"]);
        let key = Key::new(case["seed"].as_u64().unwrap());
        let (dtype, shape) = (expected.dtype(), expected.shape());
        let found = initializer(case).initialize_over(&key, dtype, shape, axes);
        same(
            &found,
            &expected,
            &format!("{} of {}", case["name"], params),
        );
    }
}
