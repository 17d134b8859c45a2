//! Families of matrices whose singular values fall to the smallest number, or that are nearly singular in another way. Iterations
//! converge for them slowly or not at all if they compare small columns with large ones.

use crate::kernels::spectra::NotConverged;
use crate::kernels::spectra::{Eigen, Singular};
use crate::primitives::tests::standing::{Check, Sample};
use pytree_transform::{DType, Tensor};

/// The bound of errors: a few units in the last place for each row. LAPACK's tests allow 30.
const THRESHOLD: f64 = 6.0;

/// Returns a number between -1 and 1 that looks random.
fn noise(row: usize, column: usize) -> f64 {
    let mixed = (12.9898 * (row as f64 + 1.0) + 78.233 * (column as f64 + 1.0)).sin() * 43_758.547;
    2.0 * (mixed - mixed.floor()) - 1.0
}

/// Returns an element of Kahan's matrix, an upper triangle whose smallest singular value no pivot shows.
fn kahan(row: usize, column: usize) -> f64 {
    let (sine, cosine) = 1.2_f64.sin_cos();
    let factor = match row.cmp(&column) {
        std::cmp::Ordering::Less => -cosine,
        std::cmp::Ordering::Equal => 1.0,
        std::cmp::Ordering::Greater => 0.0,
    };
    factor * power(sine, row)
}

/// Returns an element of Läuchli's matrix: ones above a small multiple of the identity.
fn lauchli(row: usize, column: usize, small: f64) -> f64 {
    match row {
        0 => 1.0,
        _ => small * f64::from(u8::from(row == column + 1)),
    }
}

fn power(base: f64, exponent: usize) -> f64 {
    base.powf(exponent as f64)
}

#[rustfmt::skip]
const HARD: [Sample; 12] = [
    ("graded rows", |i, j, _| noise(i, j) * (-0.7 * i as f64).exp()),
    ("graded columns", |i, j, _| noise(i, j) * (-0.7 * j as f64).exp()),
    ("graded rows and columns", |i, j, _| noise(i, j) * (-0.4 * (i + j) as f64).exp()),
    ("rows to the smallest number", |i, j, n| noise(i, j) * 10_f64.powf(-320.0 * i as f64 / n as f64)),
    ("columns to the smallest number", |i, j, n| noise(i, j) * 10_f64.powf(-320.0 * j as f64 / n as f64)),
    ("Vandermonde", |i, j, _| power(noise(i, 0), j)),
    ("transposed Vandermonde", |i, j, _| power(noise(j, 3), i)),
    ("Kahan", |i, j, _| kahan(i, j)),
    ("Hilbert", |i, j, _| 1.0 / (i + j + 1) as f64),
    ("Läuchli", |i, j, _| lauchli(i, j, 1e-9)),
    ("Läuchli of the smallest number", |i, j, _| lauchli(i, j, 1e-320)),
    ("random", |i, j, _| noise(i, j)),
];

fn check((name, element): Sample, lengths: [usize; 2], dtype: DType) -> Check {
    let mut check = Check::new((name, element), lengths, dtype, 1.0);
    check.threshold = THRESHOLD;
    check
}

fn check_all(dtype: DType) {
    for sample in HARD {
        for size in [128, 200] {
            let check = check(sample, [size, size], dtype);
            check.svd();
            check.qr();
            check.lu();
        }
        // The first is so tall that it is reduced to a square matrix before.
        for lengths in [[150, 40], [40, 150], [90, 70], [70, 90]] {
            let check = check(sample, lengths, dtype);
            check.svd();
            check.qr();
        }
    }
}

#[test]
fn hard_matrices_of_f32_have_exact_factors() {
    check_all(DType::F32);
}

#[test]
fn hard_matrices_of_f64_have_exact_factors() {
    check_all(DType::F64);
}

#[test]
fn hard_symmetric_matrices_have_exact_eigenvectors() {
    #[rustfmt::skip]
    const SYMMETRIC: [Sample; 6] = [
        ("graded", |i, j, _| noise(i.min(j), i.max(j)) * (-0.4 * (i + j) as f64).exp()),
        ("to the smallest number", |i, j, n| noise(i.min(j), i.max(j)) * 10_f64.powf(-160.0 * (i + j) as f64 / n as f64)),
        ("Hilbert", |i, j, _| 1.0 / (i + j + 1) as f64),
        ("symmetric Kahan", |i, j, _| kahan(i, j) + kahan(j, i)),
        ("arrow", |i, j, _| if i == j { 1e-9 } else { lauchli(i, j, 0.0) + lauchli(j, i, 0.0) }),
        ("random", |i, j, _| noise(i.min(j), i.max(j))),
    ];
    for dtype in [DType::F32, DType::F64] {
        for sample in SYMMETRIC {
            for size in [128, 200] {
                check(sample, [size, size], dtype).eigh();
            }
        }
    }
}

/// Five of these forty matrices once had singular vectors that were not orthogonal.
#[test]
fn vandermonde_matrices_of_random_points_are_decomposed() {
    // A sample has no state, so the points are in the columns of one long list.
    const POINTS: [fn(usize, usize, usize) -> f64; 4] = [
        |i, j, _| power(noise(i, 101), j),
        |i, j, _| power(noise(i, 102) * 0.9, j),
        |i, j, _| power(1.0 + 0.01 * noise(i, 103), j),
        |i, j, _| power(noise(i, 104).powi(3), j),
    ];
    for dtype in [DType::F32, DType::F64] {
        for element in POINTS {
            for size in [60, 80, 100, 120, 140] {
                check(("Vandermonde", element), [size, size], dtype).svd();
            }
        }
    }
}

/// The kernels pass only finite numbers to the iterations. So NaN shows what happens to one that does not converge.
#[test]
fn unconverged_iteration_is_an_error() {
    let mut singular = Singular::new([2, 2]);
    assert_eq!(singular.decompose_scaled(&[f64::NAN; 4]), Err(NotConverged));
    let mut eigen = Eigen::new(2);
    assert_eq!(eigen.decompose_scaled(&[f64::NAN; 4]), Err(NotConverged));
    let huge = [1e307_f64, -1e307, -1e307, 5e306];
    let [mut left, mut right, mut values] = [[0.0_f64; 4], [0.0; 4], [0.0; 4]];
    // The same memory decomposes the next matrix.
    let values = &mut values[..2];
    assert_eq!(
        singular.compute(&huge, &mut left, values, &mut right),
        Ok(())
    );
    assert!(values[0].is_finite());
    assert_eq!(eigen.compute(&huge, values, &mut left), Ok(()));
    let error =
        super::matrices::not_converged("take the singular values of", &Tensor::from([[1.0]]));
    let message = error.to_string();
    let start = "cannot take the singular values of f64[1,1]: the iteration did not converge; ";
    assert!(message.starts_with(start), "{message}");
}
