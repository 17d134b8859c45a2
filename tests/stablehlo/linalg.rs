//! Linear algebra at special matrices, with derivatives, and the message for what StableHLO cannot express.

use pytree::linalg::{self, Triangular};
use pytree::{DType, Tensor, grad, make_jaxpr, vmap};

use crate::stablehlo::{Case, case};

fn matrices(dtype: DType) -> Vec<(&'static str, Tensor)> {
    let nan = f64::NAN;
    [
        (
            "regular",
            Tensor::from([[1.0, 2.0, 3.0], [-4.0, 5.0, 6.0], [7.0, 8.0, 10.0]]),
        ),
        (
            "definite",
            Tensor::from([[4.0, 1.0, 0.5], [1.0, 5.0, -1.0], [0.5, -1.0, 3.0]]),
        ),
        (
            "singular",
            Tensor::from([[0.0, 2.0, 3.0], [0.0, 4.0, 6.0], [0.0, 1.0, 1.0]]),
        ),
        ("zeros", Tensor::zeros(DType::F64, [2, 2])),
        ("indefinite", Tensor::from([[1.0, 2.0], [2.0, 1.0]])),
        ("nan", Tensor::from([[nan, nan], [nan, nan]])),
        ("single", Tensor::from([[-4.0]])),
        ("empty", Tensor::zeros(DType::F64, [2, 0, 0])),
        (
            "two",
            Tensor::from([[[2.0, 1.0], [1.0, 3.0]], [[0.0, 1.0], [1.0, 0.0]]]),
        ),
    ]
    .map(|(name, matrix)| (name, matrix.convert(dtype)))
    .into()
}

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in [DType::F32, DType::F64] {
        for (name, matrix) in matrices(dtype) {
            cases.push(case(
                format!("factors of {name} {dtype}"),
                [matrix.clone()],
                |x| {
                    let (sign, logarithm) = linalg::slogdet(&x[0]);
                    vec![linalg::cholesky(&x[0]), linalg::det(&x[0]), sign, logarithm]
                },
            ));
            if ["regular", "definite", "single", "empty", "two"].contains(&name) {
                cases.push(case(
                    format!("inverse of {name} {dtype}"),
                    [matrix.clone()],
                    |x| {
                        let (q, r) = linalg::qr(&x[0]);
                        vec![
                            linalg::inv(&x[0]),
                            q,
                            r,
                            grad(|x: &Tensor| linalg::inv(x).square().sum())(&x[0]),
                            vmap(|x: Tensor| linalg::solve(&x, &Tensor::ones_like(&x)))(
                                x[0].expand_dims(-1).move_axis(-1, 0),
                            ),
                        ]
                    },
                ));
            }
        }
        // The elements outside of the triangle, and of a unit diagonal, are not read.
        let nan = f64::NAN;
        let lower = Tensor::from([[2.0, nan], [1.0, 4.0]]).convert(dtype);
        let right = Tensor::from([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).convert(dtype);
        cases.push(case(format!("triangle {dtype}"), [lower, right], |x| {
            let solve = |b: &Tensor, triangular| linalg::triangular_solve(&x[0], b, triangular);
            vec![
                solve(&x[1], Triangular::lower()),
                solve(&x[1], Triangular::lower().transposed()),
                solve(&x[1].t(), Triangular::lower().right_side()),
                solve(&x[1], Triangular::lower().unit_diagonal()),
            ]
        }));
        // Reflections of columns that are clear below the diagonal, and of zeros.
        let clear = Tensor::from([[3.0, 1.0], [0.0, -2.0], [0.0, 0.0]]).convert(dtype);
        cases.push(case(format!("reflections {dtype}"), [clear], |x| {
            let (q, r) = linalg::qr(&x[0]);
            let (wide_q, wide_r) = linalg::qr(&x[0].t());
            let (zero_q, zero_r) = linalg::qr(&Tensor::zeros_like(&x[0]));
            vec![q, r, wide_q, wide_r, zero_q, zero_r]
        }));
    }
    cases
}

#[test]
fn eigenvalues_are_refused_at_the_line_of_the_program() {
    let f = |x: Tensor| linalg::eigh(&x).0;
    let line = line!() - 1;
    let jaxpr = make_jaxpr(f)(Tensor::eye(DType::F32, 2));
    let error = jaxpr.try_to_stablehlo().unwrap_err().to_string();
    let expected = format!("cannot lower `eigh` of f32[2,2] at {}:{line}:", file!());
    assert!(error.starts_with(&expected), "{error}");
    assert!(
        error.contains("StableHLO has no operation for eigenvalues; compute"),
        "{error}"
    );
}
