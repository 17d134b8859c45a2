//! First and second derivatives at the edges of domains, in forward and reverse mode.

use pytree::linalg::{self, Triangular};
use pytree::{DType, Tensor, grad, jvp};
use serde_json::Value;

use crate::goldens::cases::check_nans;
use crate::goldens::elementwise;
use crate::goldens::files::{read, tensor};
use crate::goldens::rows;
use crate::goldens::tolerance::numbers;

/// The derivatives of a case, of both modes and orders.
struct Derivatives {
    forward: [Tensor; 2],
    reverse: [Tensor; 2],
}

/// A figure of JAX, and where it is.
struct SpecialPoint<'a> {
    mode: &'a str,
    /// The order of the derivative.
    order: usize,
    position: usize,
    /// The element of the input at this position, or NaN.
    at: f64,
    figure: f64,
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

    fn of(&self, mode: &str, order: usize) -> &Tensor {
        match mode {
            "forward" => &self.forward[order - 1],
            _ => &self.reverse[order - 1],
        }
    }

    /// The differences from the figures of a case, one a line. `decided` replaces figures of JAX.
    fn differences(
        &self,
        case: &Value,
        x: &Tensor,
        what: &str,
        decided: impl Fn(SpecialPoint<'_>) -> f64,
    ) -> Vec<String> {
        let mut lines = Vec::new();
        let points = numbers(x);
        for (mode, order) in [
            ("forward", 1),
            ("forward", 2),
            ("reverse", 1),
            ("reverse", 2),
        ] {
            let (found, expected) = (self.of(mode, order), tensor(&case[mode][order - 1]));
            assert_eq!(found.info(), expected.info(), "{what}");
            let pairs = numbers(found).into_iter().zip(numbers(&expected));
            for (position, (found, figure)) in pairs.enumerate() {
                let at = points.get(position).copied().unwrap_or(f64::NAN);
                let expected = decided(SpecialPoint {
                    mode,
                    order,
                    position,
                    at,
                    figure,
                });
                if !is_same(found, expected, x.dtype()) {
                    lines.push(format!(
                        "{what}, {mode} {order}, element {position} at {at}: found {found}, expected {expected}"
                    ));
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
fn decided(name: &str, place: &SpecialPoint<'_>) -> f64 {
    match name {
        // JAX differentiates √(x² - 1), which exists below -1, too.
        "acosh" if place.at <= -1.0 => f64::NAN,
        "acosh" if place.order == 2 && place.at == f64::INFINITY => 0.0,
        _ => place.figure,
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
            |place| decided(name, &place),
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
        Derivatives::new(f, &x, &weights, &direction)
            .differences(case, &x, &what, |place| place.figure)
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
                let x = mask.select(x, Tensor::ones_like(x));
                x.sqrt().sum_where(&mask).reshape([1])
            }
            _ => rows::apply(name, x),
        },
    ));
}

fn counted(x: &Tensor) -> Tensor {
    Tensor::arange(DType::I32, x.shape()[0]).convert(x.dtype()) + 1.0
}

/// The functions of a matrix that are compared.
fn apply_to_matrix(name: &str, at: &str, x: &Tensor) -> Tensor {
    match name {
        "det" => linalg::det(x),
        "slogdet" => linalg::slogdet(x).1,
        "inv" => linalg::inv(x),
        "solve" => linalg::solve(x, &counted(x)),
        "cholesky" => linalg::cholesky(x),
        "eigenvalues" => linalg::eigh(x).0,
        "sum_of_eigenvalues" => linalg::eigh(x).0.square().sum(),
        "singular_values" => singular_values(at, x),
        "sum_of_singular_values" => singular_values(at, x).sum(),
        "norm" => x.norm(),
        "triangular_solve" => linalg::triangular_solve(x, &counted(x), Triangular::lower()),
        "qr_r" => linalg::qr(x).1,
        "lstsq" => linalg::lstsq(x, &counted(x), None).solution,
        other => panic!("no operation for the case {other}"),
    }
}

/// The singular values, with the signs of JAX. At the point itself these choices are arbitrary: they change the derivatives, but
/// not the values.
fn singular_values(at: &str, x: &Tensor) -> Tensor {
    let values = linalg::svd(x).1;
    match at {
        // The last value is zero, and -0 with the negative of a singular vector is as good.
        "rank_one" => values * Tensor::from([1.0, -1.0]),
        _ => values,
    }
}

/// Returns a function with the same derivatives, which takes the place of JAX from the given order on.
fn instead_of_jax(name: &str, at: &str) -> Option<(usize, fn(&Tensor) -> Tensor)> {
    match (name, at) {
        // JAX differentiates singular vectors, which have no derivatives if singular values are equal.
        ("lstsq", "identity" | "twice") => Some((1, |x| linalg::solve(x, &counted(x)))),
        // All singular values count as zeros.
        ("lstsq", "zeros") => Some((1, |x| x.sum_axes([1]) * 0.0)),
        // JAX divides by the last pivot, which is a rounding error.
        ("qr_r", "ones" | "rank_one") => Some((2, r_of_two_columns)),
        _ => None,
    }
}

/// Returns `R` of a matrix with two rows and columns, which exists for dependent columns, too.
fn r_of_two_columns(x: &Tensor) -> Tensor {
    let [first, second] = [0, 1].map(|column| x.index([(..).into(), column.into()]));
    let length = first.norm();
    let zero = &length * 0.0;
    let dot = (first * second).sum();
    let last = linalg::det(x) / &length;
    Tensor::stack(&[-&length, -dot / &length, zero, last], 0).reshape([2, 2])
}

/// Returns the figure for a matrix without a derivative, where JAX gives another one. `docs/reference/for-jax-users.md` has
/// the list, with the functions of [`instead_of_jax`].
fn decided_for_matrix(name: &str, at: &str, place: &SpecialPoint<'_>, weights: &Tensor) -> f64 {
    let (row, column) = (place.position / 3, place.position % 3);
    match (name, at, place.mode) {
        // A sum of infinities of both signs.
        ("slogdet", "ones" | "rank_one", "forward") if place.order == 2 => f64::NAN,
        // The first column is zero. Below the diagonal, `R` is zero everywhere.
        ("qr_r", "zeros" | "rank_two", "forward") if row > column => 0.0,
        ("qr_r", "rank_two", "reverse") if place.figure.is_infinite() => f64::NAN,
        // The last column of `R` is that of `Qᵀ A`, and `Q` is the identity.
        ("qr_r", "zeros", "reverse") if place.order == 1 && column == 2 => {
            numbers(weights)[place.position]
        }
        _ => place.figure,
    }
}

#[test]
fn derivatives_of_matrices_match_jax() {
    let file = read("special_points.json");
    let cases = file["matrices"].as_array().unwrap();
    assert!(cases.len() > 100);
    let mut differences = Vec::new();
    for case in cases {
        let [x, weights, direction] =
            ["input", "weights", "direction"].map(|name| tensor(&case[name]));
        let (name, at) = (text(case, "name"), text(case, "at"));
        let derivatives = |f: &(dyn Fn(&Tensor) -> Tensor + Send + Sync)| {
            Derivatives::new(f, &x, &weights, &direction)
        };
        let other = instead_of_jax(name, at).map(|(order, f)| (order, derivatives(&f)));
        let expected = |place: SpecialPoint<'_>| match &other {
            Some((from, other)) if place.order >= *from => {
                numbers(other.of(place.mode, place.order))[place.position]
            }
            _ => decided_for_matrix(name, at, &place, &weights),
        };
        let f = |x: &Tensor| apply_to_matrix(name, at, x);
        let found = derivatives(&f);
        if name == "lstsq" {
            // Second derivatives of the singular values, which the function returns, too, are NaN if they are equal.
            check_nans([&found.forward[0], &found.reverse[0]], || {
                let slope = along(f, &x, &direction);
                (slope, grad(|x: &Tensor| (f(x) * &weights).sum())(&x))
            });
        }
        let what = format!("{name} at {at}");
        differences.extend(found.differences(case, &x, &what, expected));
    }
    assert_none(differences);
}
