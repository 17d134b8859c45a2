//! First and second derivatives at the edges of domains, in forward and reverse mode.

use pytree::{DType, Tensor, grad, jvp};
use serde_json::Value;

use crate::goldens::elementwise;
use crate::goldens::files::{read, tensor};
use crate::goldens::rows;
use crate::goldens::tolerance::numbers;

/// The derivatives of a case, of both modes and orders.
struct Derivatives {
    forward: [Tensor; 2],
    reverse: [Tensor; 2],
}

fn along(f: impl Fn(&Tensor) -> Tensor + Send + Sync, x: &Tensor, direction: &Tensor) -> Tensor {
    jvp(|x: &Tensor| f(x), x, direction).1
}

impl Derivatives {
    fn new(
        f: impl Fn(&Tensor) -> Tensor + Send + Sync,
        x: &Tensor,
        weights: &Tensor,
        direction: &Tensor,
    ) -> Self {
        let slope = |x: &Tensor| grad(|x: &Tensor| (f(x) * weights).sum())(x);
        Self {
            forward: [
                along(&f, x, direction),
                along(|x| along(&f, x, direction), x, direction),
            ],
            reverse: [slope(x), grad(|x: &Tensor| (slope(x) * direction).sum())(x)],
        }
    }

    /// The differences from the figures of a case, one a line. `decided` replaces figures of JAX: it gets the order of the
    /// derivative, the point and the figure.
    fn differences(
        &self,
        case: &Value,
        x: &Tensor,
        what: &str,
        decided: impl Fn(usize, f64, f64) -> f64,
    ) -> Vec<String> {
        let mut lines = Vec::new();
        for (mode, found) in [("forward", &self.forward), ("reverse", &self.reverse)] {
            for (order, found) in found.iter().enumerate() {
                let expected = tensor(&case[mode][order]);
                assert_eq!(found.info(), expected.info(), "{what}");
                let points = numbers(x);
                let pairs = numbers(found).into_iter().zip(numbers(&expected));
                for (position, (found, expected)) in pairs.enumerate() {
                    let at = points.get(position).copied().unwrap_or(f64::NAN);
                    let order = order + 1;
                    let expected = decided(order, at, expected);
                    if !is_same(found, expected, x.dtype()) {
                        lines.push(format!(
                            "{what}, {mode} {order}, element {position} at {at}: found {found}, expected {expected}"
                        ));
                    }
                }
            }
        }
        lines
    }
}

fn is_same(found: f64, expected: f64, dtype: DType) -> bool {
    let (relative, absolute) = match dtype {
        DType::F32 => (2e-5, 2e-6),
        _ => (1e-12, 1e-13),
    };
    found == expected
        || (found.is_nan() && expected.is_nan())
        || (found - expected).abs() <= absolute + relative * expected.abs()
}

/// Returns the derivative of a function of elements, where we decided against JAX, else that of JAX.
/// `docs/reference/for-jax-users.md` has the list.
fn decided(name: &str, order: usize, at: f64, expected: f64) -> f64 {
    match name {
        // JAX differentiates √(x² - 1), which exists below -1, too.
        "acosh" if at <= -1.0 => f64::NAN,
        "acosh" if order == 2 && at == f64::INFINITY => 0.0,
        _ => expected,
    }
}

fn text<'a>(case: &'a Value, name: &str) -> &'a str {
    case[name].as_str().unwrap()
}

fn assert_none(differences: Vec<String>) {
    assert!(
        differences.is_empty(),
        "{} differences:\n{}",
        differences.len(),
        differences.join("\n")
    );
}

#[test]
fn derivatives_of_elements_match_jax() {
    let file = read("special_points.json");
    let mut differences = Vec::new();
    for case in file["elements"].as_array().unwrap() {
        let name = text(case, "name");
        let inputs: Vec<Tensor> = (case["inputs"].as_array().unwrap().iter())
            .map(tensor)
            .collect();
        let position = case["position"].as_u64().unwrap() as usize;
        let f = |x: &Tensor| {
            let mut inputs = inputs.clone();
            inputs[position] = x.clone();
            elementwise::apply(name, &Value::Null, &inputs)
        };
        let x = &inputs[position];
        let ones = Tensor::ones_like(x);
        let what = format!("{name} of {}, argument {position}", x.dtype());
        differences.extend(Derivatives::new(f, x, &ones, &ones).differences(
            case,
            x,
            &what,
            |order, at, expected| decided(name, order, at, expected),
        ));
    }
    assert_none(differences);
}

/// Returns whether all elements of the input of a case are equal.
fn is_constant(case: &Value) -> bool {
    let input = numbers(&tensor(&case["input"]));
    input.iter().all(|element| *element == input[0])
}

/// The derivatives of the functions of one tensor in a list of cases.
fn differences_of(
    cases: &Value,
    apply: impl Fn(&str, &Tensor) -> Tensor + Send + Sync,
) -> Vec<String> {
    let cases = cases.as_array().unwrap().iter();
    // Of windows of -inf only, JAX's forward mode gives 0, and its reverse mode the derivative of the first element.
    let cases = cases.filter(|case| text(case, "name") != "max_pool" || !is_constant(case));
    let differences = cases.flat_map(|case| {
        let [x, weights, direction] =
            ["input", "weights", "direction"].map(|name| tensor(&case[name]));
        let what = format!("{} of {} {}", text(case, "name"), x.dtype(), case["at"]);
        let f = |x: &Tensor| apply(text(case, "name"), x);
        Derivatives::new(f, &x, &weights, &direction).differences(
            case,
            &x,
            &what,
            |_, _, expected| expected,
        )
    });
    differences.collect()
}

#[test]
fn derivatives_of_rows_match_jax() {
    let mask = Tensor::from([[true, false, true, false]]);
    assert_none(differences_of(
        &read("special_points.json")["rows"],
        |name, x| match name {
            "masked_sqrt" => x.sqrt().sum_where(&mask).reshape([1]),
            "sqrt_of_masked" => {
                let x = mask.select(x, &Tensor::ones_like(x));
                x.sqrt().sum_where(&mask).reshape([1])
            }
            _ => rows::apply(name, x),
        },
    ));
}
