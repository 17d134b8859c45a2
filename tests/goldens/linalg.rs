//! Linear algebra: factorizations, determinants and systems of equations.

use pytree::linalg::{self, Triangular};
use pytree::{DType, Tensor, grad, jit};
use serde_json::Value;

use crate::goldens::cases::{check_cases, check_file};
use crate::goldens::files::{read, tensor};
use crate::goldens::tolerance::assert_close;

fn identity(x: &Tensor) -> Tensor {
    Tensor::eye(x.dtype(), x.shape()[x.rank() - 1])
}

/// Returns well conditioned matrices, whose rows are reversed if `turned`.
fn regular(x: &Tensor, turned: &Value) -> Tensor {
    let x = x + identity(x) * 6.0;
    if turned == &Value::Bool(true) {
        x.reverse([-2])
    } else {
        x
    }
}

fn definite(x: &Tensor) -> Tensor {
    x.matmul(&x.swap_axes(-1, -2)) + identity(x) * 3.0
}

/// Returns matrices whose singular values are far from zero and from each other.
fn well_apart(x: &Tensor) -> Tensor {
    let columns = x.shape()[x.rank() - 1];
    let rows = Tensor::iota(DType::I32, [x.shape()[x.rank() - 2], columns], 0);
    let numbers = Tensor::arange(DType::I32, columns);
    let identity = rows.equal(&numbers).convert(x.dtype());
    x / 4.0 + identity * (numbers.convert(x.dtype()) * 2.0 + 2.0)
}

fn symmetric(x: &Tensor) -> Tensor {
    let x = well_apart(x);
    &x + x.swap_axes(-1, -2)
}

fn triangular(parameters: &Value) -> Triangular {
    let is = |name: &str| parameters[name].as_bool().unwrap();
    let mut triangular = if is("lower") {
        Triangular::lower()
    } else {
        Triangular::upper()
    };
    if is("transposed") {
        triangular = triangular.transposed();
    }
    if is("unit") {
        triangular = triangular.unit_diagonal();
    }
    if is("left") {
        triangular
    } else {
        triangular.right_side()
    }
}

/// The operation of a case in our words.
fn apply(name: &str, parameters: &Value, x: &[Tensor]) -> Tensor {
    let regular = || regular(&x[0], &parameters["turned"]);
    match name {
        "cholesky" => linalg::cholesky(&definite(&x[0])),
        "cholesky_of_any" => linalg::cholesky(&regular()),
        "log_determinant" => {
            linalg::cholesky(&definite(&x[0]))
                .diagonal(0, -2, -1)
                .log()
                .sum()
                * 2.0
        }
        "inv" => linalg::inv(&regular()),
        "det" => linalg::det(&regular()),
        "slogdet" => linalg::slogdet(&regular()).1,
        "sign" => linalg::slogdet(&regular()).0,
        "solve" => linalg::solve(&regular(), &x[1]),
        "cho_solve" => linalg::cho_solve(&linalg::cholesky(&definite(&x[0])), &x[1]),
        "triangular_solve" => linalg::triangular_solve(&regular(), &x[1], triangular(parameters)),
        "qr_q" => linalg::qr(&well_apart(&x[0])).0,
        "qr_r" => linalg::qr(&well_apart(&x[0])).1,
        "eigenvalues" => linalg::eigh(&symmetric(&x[0])).0,
        "sine_of_symmetric" => {
            let (w, v) = linalg::eigh(&symmetric(&x[0]));
            (&v * w.sin().expand_dims(-2)).matmul(&v.swap_axes(-1, -2))
        }
        "singular_values" => linalg::svd(&well_apart(&x[0])).1,
        "sine_of_singular_values" => {
            let (u, s, v_t) = linalg::svd(&well_apart(&x[0]));
            (u * s.sin().expand_dims(-2)).matmul(&v_t)
        }
        "lstsq" => linalg::lstsq(&well_apart(&x[0]), &x[1], None).solution,
        "lstsq_residuals" => linalg::lstsq(&well_apart(&x[0]), &x[1], None).residuals,
        other => panic!("no operation for the case {other}"),
    }
}

#[test]
fn systems_and_factorizations_are_as_in_jax() {
    check_file("linalg.json", 130, apply);
}

/// StableHLO has no operations for eigenvalues and singular values, so no device runs these cases.
#[test]
fn spectral_decompositions_are_as_in_jax() {
    check_cases(&read("linalg.json")["host_cases"], 20, apply, None);
}

#[test]
fn special_matrices_are_as_in_jax() {
    let file = read("linalg.json");
    let edges = file["edges"].as_array().unwrap();
    assert!(edges.len() > 95);
    for edge in edges {
        let name = edge["name"].as_str().unwrap().to_owned();
        let of_edge = move |x: &Tensor| match name.as_str() {
            "cholesky" => linalg::cholesky(x),
            "det" => linalg::det(x),
            "gradient_of_det" => grad(|x: &Tensor| linalg::det(x).sum())(x),
            "sign" => linalg::slogdet(x).0,
            "slogdet" => linalg::slogdet(x).1,
            other => panic!("no function for the edge {other}"),
        };
        let what = format!("{} of {}", edge["name"], edge["matrix"]);
        let (x, mut expected) = (tensor(&edge["input"]), tensor(&edge["output"]));
        if edge["name"] == "gradient_of_det" && edge["matrix"] == "rank_two_of_three" {
            // JAX gives 0 here. The gradient is the matrix of cofactors.
            let cofactors = [[0.0, 0.0, 0.0], [20.0, -10.0, 0.0], [-10.0, 5.0, 0.0]];
            expected = Tensor::from(cofactors).convert(x.dtype());
        }
        if edge["name"] == "gradient_of_det" && edge["matrix"] == "all_nan" {
            // JAX gives 0 here, too.
            expected = &expected + f64::NAN;
        }
        assert_close(&what, &of_edge(&x), &expected);
        let compiled = jit(move |x: Tensor| of_edge(&x));
        assert_close(&what, &compiled(x), &expected);
    }
}
