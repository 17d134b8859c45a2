//! Tests of the rules against definitions, at sizes below and above a block.

mod hard;
mod rule_checks;
mod standing;

use super::*;
use crate::primitives::cholesky::Cholesky;
use crate::primitives::determinant::Determinant;
use crate::primitives::lu::Lu;
use crate::primitives::lu_solve::LuSolve;
use crate::primitives::matrices::{MatrixPart, adjoint, identity, part, permuted_rows, product};
use crate::primitives::qr::Qr;
use crate::primitives::tests::rule_checks::{
    assert_close, check_batching, check_tangent, check_transpose, noise,
};
use pytree_transform::extend::apply;
use pytree_transform::{DType, Tensor};

/// Lengths of matrices that are one block, nearly one block, and several blocks.
const SIZES: [usize; 5] = [1, 3, 64, 65, 200];

/// Returns matrices whose diagonal is so large that they are well conditioned.
fn regular(shape: &[usize], seed: u32) -> Tensor {
    let matrices = noise(shape, seed);
    let length = shape[shape.len() - 1] as f64;
    &matrices + identity(&matrices) * length
}

fn definite(shape: &[usize], seed: u32) -> Tensor {
    let matrices = noise(shape, seed);
    product(&matrices, &adjoint(&matrices)) + identity(&matrices)
}

fn single(tensor: &Tensor) -> Tensor {
    tensor.convert(DType::F32)
}

#[test]
fn cholesky_factor_times_its_transpose_is_the_matrix() {
    for size in SIZES {
        let a = definite(&[2, size, size], 1);
        let l = cholesky(&a).unwrap();
        assert_close(&product(&l, &adjoint(&l)), &a, 1e-12);
        assert_eq!(part(&l, MatrixPart::Lower), l);
        let l = cholesky(&single(&a)).unwrap();
        assert_close(&product(&l, &adjoint(&l)), &single(&a), 1e-5);
    }
}

#[test]
fn indefinite_matrix_has_no_cholesky_factor() {
    for size in [2, 130] {
        let a = definite(&[size, size], 2);
        let indefinite = &a - identity(&a) * 1e6;
        let l = cholesky(&indefinite).unwrap().to_vec::<f64>();
        for (position, element) in l.iter().enumerate() {
            let is_upper = position % size > position / size;
            assert!(if is_upper {
                *element == 0.0
            } else {
                element.is_nan()
            });
        }
        assert!(cholesky(&(a * f64::NAN)).unwrap().to_vec::<f64>()[0].is_nan());
    }
}

#[test]
fn triangular_solution_fulfils_its_equations() {
    for size in SIZES {
        for columns in [1, 5] {
            for (triangle, read) in [
                (Triangle::Lower, MatrixPart::Lower),
                (Triangle::Upper, MatrixPart::Upper),
            ] {
                let solve = TriangularSolve::new(triangle);
                for solve in [solve, solve.transposed(), solve.with_unit_diagonal()] {
                    let a = regular(&[2, size, size], 3);
                    let used = part(&a, read);
                    let used = if solve.has_unit_diagonal {
                        &used - part(&used, MatrixPart::Diagonal) + identity(&used)
                    } else {
                        used
                    };
                    // A unit diagonal gives solutions that grow with the size.
                    let (a, used) = if solve.has_unit_diagonal {
                        let small = |x: &Tensor| (x - identity(x)) / 50.0 + identity(x);
                        (small(&a), small(&used))
                    } else {
                        (a, used)
                    };
                    let used = if solve.is_transposed {
                        adjoint(&used)
                    } else {
                        used
                    };
                    let b = noise(&[2, size, columns], 4);
                    assert_close(&product(&used, &solve.apply(&a, &b)), &b, 1e-12);
                    let (b, right) = (noise(&[2, columns, size], 5), solve.on_side(Side::Right));
                    assert_close(&product(&right.apply(&a, &b), &used), &b, 1e-12);
                }
            }
        }
    }
}

#[test]
fn zero_on_diagonal_gives_infinity() {
    let a = Tensor::from([[0.0, 1.0], [f64::NAN, 2.0]]);
    let b = Tensor::from([[1.0], [1.0]]);
    let found = TriangularSolve::new(Triangle::Upper).apply(&a, &b);
    assert_eq!(found, Tensor::from([[f64::INFINITY], [0.5]]));
}

#[test]
fn product_of_lu_factors_is_the_permuted_matrix() {
    for size in SIZES {
        let a = noise(&[2, size, size], 6);
        let factors = lu(&a).unwrap();
        let lower = part(&factors.packed, MatrixPart::BelowDiagonal) + identity(&a);
        let upper = part(&factors.packed, MatrixPart::Upper);
        assert_close(
            &product(&lower, &upper),
            &permuted_rows(&a, &factors.permutation),
            1e-12,
        );
        let greatest = lower
            .to_vec::<f64>()
            .into_iter()
            .fold(0.0, |x: f64, y| x.max(y.abs()));
        assert_eq!(greatest.to_bits(), 1_f64.to_bits());
        // The pivots are the exchanges that lead to the permutation.
        let pivots = factors.pivots.to_vec::<i32>();
        let permutations = factors.permutation.to_vec::<i32>();
        for (pivots, permutation) in pivots.chunks(size).zip(permutations.chunks(size)) {
            let mut rows: Vec<i32> = (0..).take(size).collect();
            for (step, &pivot) in pivots.iter().enumerate() {
                let pivot = pivot.unsigned_abs() as usize;
                assert!(pivot >= step);
                rows.swap(step, pivot);
            }
            assert_eq!(rows, permutation);
        }
    }
}

#[test]
fn singular_matrix_keeps_zero_pivots() {
    let zeros = Tensor::zeros(DType::F64, [3, 3]);
    let factors = lu(&zeros).unwrap();
    assert_eq!(factors.packed, zeros);
    assert_eq!(determinant(&zeros).unwrap(), Tensor::from(0.0));
    let of_rank_one = Tensor::from([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [3.0, 6.0, 9.0]]);
    let found = determinant(&of_rank_one).unwrap().item::<f64>();
    assert!(found.abs() <= 0.0, "{found}");
}

#[test]
fn determinant_is_alternating_sum() {
    let a = Tensor::from([[2.0, -1.0, 3.0], [4.0, 0.5, 1.0], [-2.0, 5.0, 7.0]]);
    let expected = 2.0 * (0.5 * 7.0 - 5.0) + (4.0 * 7.0 + 2.0) + 3.0 * (4.0 * 5.0 + 2.0 * 0.5);
    assert_close(&determinant(&a).unwrap(), &Tensor::from(expected), 1e-14);
    let none = Tensor::zeros(DType::F32, [2, 0, 0]);
    assert_eq!(determinant(&none).unwrap(), Tensor::from([1.0_f32, 1.0]));
}

#[test]
fn lu_solution_fulfils_its_equations() {
    for size in SIZES {
        let a = regular(&[2, size, size], 7);
        // The rows are exchanged, so that pivots are needed.
        let a = a.reverse([1]);
        let (factors, b) = (lu(&a).unwrap(), noise(&[2, size, 3], 8));
        let x = lu_solve(&a, &factors, &b).unwrap();
        assert_close(&product(&a, &x), &b, 1e-12);
        let operands = [&a, &factors.packed, &factors.permutation, &b];
        let is_transposed = true;
        let x = apply(&LuSolve { is_transposed }, &operands).remove(0);
        assert_close(&product(&adjoint(&a), &x), &b, 1e-12);
    }
}

#[test]
fn qr_factors_are_orthonormal_and_triangular() {
    for (m, n) in [(1, 1), (3, 3), (5, 2), (2, 5), (130, 70), (70, 130)] {
        let a = noise(&[2, m, n], 9);
        let (q, r) = qr(&a).unwrap();
        assert_close(&product(&q, &r), &a, 1e-12);
        let gram = product(&adjoint(&q), &q);
        assert_close(&gram, &identity(&gram), 1e-12);
        assert_eq!(part(&r, MatrixPart::Upper), r);
        let (q, r) = qr(&single(&a)).unwrap();
        assert_close(&product(&q, &r), &single(&a), 1e-5);
    }
    // The squares of these elements overflow and underflow.
    for scale in [1e200, 1e-200] {
        let a = Tensor::from([[3.0, 1.0], [4.0, 2.0]]);
        let (q, r) = qr(&(&a * scale)).unwrap();
        assert_close(&(r / scale), &qr(&a).unwrap().1, 1e-14);
        assert_close(&q, &qr(&a).unwrap().0, 1e-14);
    }
}

#[test]
fn eigenvectors_are_orthonormal_and_scaled_by_the_matrix() {
    for size in [1, 2, 10, 100] {
        let a = noise(&[2, size, size], 10);
        let a = &a + adjoint(&a);
        let (w, v) = eigh(&a).unwrap();
        let scaled = &v * w.reshape([2, 1, size]);
        assert_close(&product(&a, &v), &scaled, 1e-11);
        let gram = product(&adjoint(&v), &v);
        assert_close(&gram, &identity(&gram), 1e-12);
        for values in w.to_vec::<f64>().chunks(size) {
            assert!(values.is_sorted());
        }
    }
}

#[test]
fn singular_vectors_are_orthonormal_and_give_the_matrix() {
    for (m, n) in [(1, 1), (3, 3), (6, 2), (2, 6), (80, 50), (50, 80)] {
        let k = m.min(n);
        let a = noise(&[2, m, n], 11);
        let [u, s, v_t] = svd(&a).unwrap();
        let scaled = &u * s.reshape([2, 1, k]);
        assert_close(&product(&scaled, &v_t), &a, 1e-13);
        for gram in [product(&adjoint(&u), &u), product(&v_t, &adjoint(&v_t))] {
            assert_close(&gram, &identity(&gram), 1e-13);
        }
        for values in s.to_vec::<f64>().chunks(k) {
            assert!(values.is_sorted_by(|left, right| left >= right));
        }
    }
}

#[test]
fn repeated_values_and_zeros_are_decomposed() {
    let ones = Tensor::ones(DType::F64, [4, 4]);
    let [u, s, v_t] = svd(&ones).unwrap();
    let scaled = &u * s.reshape([1, 4]);
    assert_close(&product(&scaled, &v_t), &ones, 1e-14);
    let zeros = Tensor::zeros(DType::F64, [3, 2]);
    assert_eq!(svd(&zeros).unwrap()[1], Tensor::from([0.0, 0.0]));
    let (w, _) = eigh(&identity(&ones)).unwrap();
    assert_eq!(w, Tensor::from([1.0, 1.0, 1.0, 1.0]));
}

#[test]
fn nan_and_infinity_give_nan() {
    for special in [f64::NAN, f64::INFINITY] {
        let a = Tensor::from([[1.0, special], [special, 2.0]]);
        let all_nan = |tensor: &Tensor| tensor.to_vec::<f64>().iter().all(|x| x.is_nan());
        let (w, v) = eigh(&a).unwrap();
        assert!(all_nan(&w) && all_nan(&v));
        assert!(svd(&a).unwrap().iter().all(all_nan));
    }
    let (q, r) = qr(&Tensor::from([[f64::NAN, 1.0], [0.5, 2.0]])).unwrap();
    assert!(q.to_vec::<f64>()[0].is_nan() && r.to_vec::<f64>()[0].is_nan());
}

#[test]
fn batching_agrees_with_evaluation() {
    for axis in 0_usize..4 {
        let a = regular(&[3, 3, 3, 3], 12);
        let with_batch = |a: &Tensor| a.move_axis(0, axis.cast_signed());
        let stacked = with_batch(&a);
        check_batching(
            &Cholesky,
            &[with_batch(&definite(&[3, 3, 3, 3], 13))],
            &[Some(axis)],
        );
        check_batching(&Lu, std::slice::from_ref(&stacked), &[Some(axis)]);
        check_batching(&Qr, std::slice::from_ref(&stacked), &[Some(axis)]);
        check_batching(&Determinant, std::slice::from_ref(&stacked), &[Some(axis)]);
        let b = noise(&[3, 3, 3, 3], 14);
        let matrix = regular(&[3, 3, 3], 15);
        let factors = lu(&matrix).unwrap();
        let (packed, permutation) = (factors.packed, factors.permutation);
        for side in [Side::Left, Side::Right] {
            let solve = TriangularSolve::new(Triangle::Lower).on_side(side);
            check_batching(&solve, &[matrix.clone(), b.clone()], &[None, Some(axis)]);
            check_batching(
                &solve,
                &[stacked.clone(), matrix.clone()],
                &[Some(axis), None],
            );
            check_batching(
                &solve,
                &[stacked.clone(), b.clone()],
                &[Some(axis), Some(0)],
            );
        }
        for is_transposed in [false, true] {
            let operands = [
                matrix.clone(),
                packed.clone(),
                permutation.clone(),
                b.clone(),
            ];
            check_batching(
                &LuSolve { is_transposed },
                &operands,
                &[None, None, None, Some(axis)],
            );
        }
    }
}

#[test]
fn derivative_rules_agree_with_evaluation() {
    let matrix = regular(&[2, 3, 3], 16);
    let b = noise(&[2, 3, 3], 17);
    for triangle in [Triangle::Lower, Triangle::Upper] {
        for side in [Side::Left, Side::Right] {
            let solve = TriangularSolve::new(triangle).on_side(side);
            for solve in [solve, solve.transposed(), solve.with_unit_diagonal()] {
                check_tangent(&solve, &[matrix.clone(), b.clone()]);
                check_transpose(&solve, &[matrix.clone(), b.clone()], 1);
            }
        }
    }
    check_tangent(&Determinant, std::slice::from_ref(&matrix));
    check_tangent(&Lu, std::slice::from_ref(&matrix));
    check_tangent(&Qr, &[matrix]);
}

#[test]
fn operands_without_elements_work() {
    let none = Tensor::zeros(DType::F64, [2, 0, 0]);
    assert_eq!(cholesky(&none).unwrap(), none);
    assert_eq!(lu(&none).unwrap().packed, none);
    assert_eq!(eigh(&none).unwrap().1, none);
    for shape in [[0, 3], [3, 0]] {
        let a = Tensor::zeros(DType::F64, shape);
        let (q, r) = qr(&a).unwrap();
        assert_eq!(
            (q.shape(), r.shape()),
            (&[shape[0], 0][..], &[0, shape[1]][..])
        );
        let [u, s, v_t] = svd(&a).unwrap();
        assert_eq!((u.shape(), s.shape()), (&[shape[0], 0][..], &[0][..]));
        assert_eq!(v_t.shape(), [0, shape[1]]);
    }
    let b = Tensor::zeros(DType::F64, [3, 0]);
    let a = regular(&[3, 3], 18);
    assert_eq!(TriangularSolve::new(Triangle::Lower).apply(&a, &b), b);
    assert_eq!(lu_solve(&a, &lu(&a).unwrap(), &b).unwrap(), b);
}
