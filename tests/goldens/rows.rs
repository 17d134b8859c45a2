//! Functions of rows with NaN, infinities and zeros: values and gradients.

use pytree::nn::{glu, log_softmax, logsumexp, softmax, standardize};
use pytree::pooling::Pooling;
use pytree::{Tensor, grad, ix, jit};
use serde_json::Value;

use crate::goldens::files::{read, tensor};
use crate::goldens::tolerance::numbers;
use crate::stablehlo::device::loses_nan;
use crate::stablehlo::record::Group;

/// The function of a case in our words.
pub fn apply(name: &str, x: &Tensor) -> Tensor {
    let pooled = |pool: fn(&Pooling, &Tensor) -> Tensor| {
        pool(&Pooling::new([2]), &x.expand_dims(-1)).squeeze(-1)
    };
    let (first, last) = (x.index(ix![.., ..3]), x.index(ix![.., 3]));
    match name {
        "sum" => x.sum_axes([-1]),
        "mean" => x.mean_axes([-1]),
        "max" => x.max_axes([-1]),
        "min" => x.min_axes([-1]),
        "prod" => x.prod_axes([-1]),
        "var" => x.variance_axes([-1]),
        "std" => x.standard_deviation_axes([-1]),
        "norm" => x.norm_axes([-1]),
        "logsumexp" => logsumexp(x, -1),
        "softmax" => softmax(x, -1),
        "log_softmax" => log_softmax(x, -1),
        "standardize" => standardize(x, -1, 1e-5),
        "glu" => glu(x, -1),
        "sort" => x.sort(-1),
        "top_k" => x.top_k(2).0,
        "cumsum" => x.cumsum(1),
        "cumprod" => x.cumprod(1),
        "cummax" => x.cummax(1),
        "cummin" => x.cummin(1),
        "cumlogsumexp" => x.cumlogsumexp(1),
        "max_pool" => pooled(Pooling::max),
        "min_pool" => pooled(Pooling::min),
        "average_pool" => pooled(Pooling::average),
        "at_min" => first.at(ix![.., 1]).min(last),
        "at_max" => first.at(ix![.., 1]).max(last),
        "at_multiply" => first.at(ix![.., 1]).multiply(last),
        "dot" => (x * x).sum_axes([-1]),
        "where_positive" => x.greater(0.0).select(x, Tensor::zeros_like(x)),
        other => panic!("no function for the case {other}"),
    }
}

/// Returns the rows in which two tensors differ.
fn differences(what: &str, rows: &Tensor, found: &Tensor, expected: &Tensor) -> Vec<String> {
    assert_eq!(found.info(), expected.info(), "{what}");
    let (relative, absolute) = match found.dtype() {
        pytree::DType::F32 => (2e-5, 2e-6),
        _ => (1e-12, 1e-13),
    };
    let count = rows.shape()[0];
    let (rows, found, expected) = (numbers(rows), numbers(found), numbers(expected));
    let width = found.len() / count;
    (0..count)
        .filter_map(|row| {
            let of = |all: &[f64], width: usize| all[row * width..(row + 1) * width].to_vec();
            let (found, expected) = (of(&found, width), of(&expected, width));
            let same = found.iter().zip(&expected).all(|(found, expected)| {
                found == expected
                    || (found.is_nan() && expected.is_nan())
                    || (found - expected).abs() <= absolute + relative * expected.abs()
            });
            let rows = of(&rows, 4);
            (!same).then(|| format!("{what} of {rows:?}: found {found:?}, expected {expected:?}"))
        })
        .collect()
}

#[test]
fn rows_with_nan_and_infinities_are_as_in_jax() {
    let file = read("rows.json");
    let cases = file["rows"].as_array().unwrap();
    assert_eq!(cases.len(), 56);
    let mut group = Group::new(28);
    let failures: Vec<String> = cases
        .iter()
        .flat_map(|case| check(case, &mut group))
        .collect();
    assert!(
        failures.is_empty(),
        "{}:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

/// Returns whether a difference is documented in `docs/reference/for-jax-users.md`.
fn is_on_purpose(difference: &str) -> bool {
    let is_gradient = |name| difference.starts_with(name) && difference.contains(": gradient");
    let rows = difference.split(": found").next().unwrap();
    (is_gradient("max_pool") || is_gradient("min_pool")) && rows.contains("NaN")
        || is_gradient("top_k") && rows.contains("-0.0")
}

#[test]
fn gradient_of_window_is_that_of_its_result() {
    let nan = f64::NAN;
    for pool in [Pooling::max, Pooling::min] {
        let x = Tensor::from([[1.0], [nan], [2.0], [nan], [nan]]);
        let weights = Tensor::from([[1.0], [2.0], [3.0], [4.0]]);
        let slope = grad(|x: &Tensor| (pool(&Pooling::new([2]), x) * &weights).sum())(&x);
        // JAX gives NaN as each result, and its gradient to the second element of each window.
        assert_eq!(slope.to_vec::<f64>(), [0.0, 3.0, 0.0, 7.0, 0.0]);
    }
}

#[test]
fn top_k_takes_zeros_as_equal() {
    let x = Tensor::from([-0.0, 0.0, -1.0, 0.0]);
    let slope = grad(|x: &Tensor| (x.top_k(2).0 * Tensor::from([1.0, 2.0])).sum())(&x);
    assert_eq!(x.top_k(2).1.to_vec::<i32>(), [0, 1]);
    assert_eq!(slope.to_vec::<f64>(), [1.0, 2.0, 0.0, 0.0]);
}

fn check(case: &Value, group: &mut Group) -> Vec<String> {
    let name = case["name"].as_str().unwrap().to_owned();
    let what = format!("{name} of {}", case["dtype"]);
    let [rows, output, weights, gradient] =
        ["rows", "output", "weights", "gradient"].map(|key| tensor(&case[key]));
    let of = name.clone();
    let compiled = jit(move |x: Tensor| apply(&of, &x));
    {
        let (name, weights) = (name.clone(), weights.clone());
        let is_nan_lost = loses_nan(&name);
        group.add(&what, std::slice::from_ref(&rows), move |x| {
            let loss = |x: &Tensor| (apply(&name, x) * &weights).sum();
            let value = apply(&name, &x[0]);
            match is_nan_lost {
                true => vec![value],
                false => vec![value, grad(loss)(&x[0])],
            }
        });
    }
    let loss = |x: &Tensor| (apply(&name, x) * &weights).sum();
    let loss_of_jit = |x: &Tensor| (compiled(x.clone()) * &weights).sum();
    let differences = |what: &str, rows: &Tensor, found: &Tensor, expected: &Tensor| {
        let mut differences = differences(what, rows, found, expected);
        differences.retain(|difference| !is_on_purpose(difference));
        differences
    };
    [
        differences(&what, &rows, &apply(&name, &rows), &output),
        differences(
            &format!("{what}: jit"),
            &rows,
            &compiled(rows.clone()),
            &output,
        ),
        differences(
            &format!("{what}: gradient"),
            &rows,
            &grad(loss)(&rows),
            &gradient,
        ),
        differences(
            &format!("{what}: gradient of jit"),
            &rows,
            &grad(loss_of_jit)(&rows),
            &gradient,
        ),
    ]
    .concat()
}
