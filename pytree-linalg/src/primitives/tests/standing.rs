//! Every factorization of a standing set of matrices: ordinary, degenerate, badly scaled and not finite ones, of 1 to 64
//! rows, in f32 and f64.
//!
//! The bounds are those of LAPACK's own tests (LAPACK Working Note 41; `dqrt01`, `dsyt21`, `dbdt01`, `dget01`, `dpot01`):
//! the 1-norm of an error, divided by the size, the norm of the matrix and the machine epsilon, is below [`THRESHOLD`].
//! Subnormal numbers have fewer digits, so each element of an error may also have a few units of the smallest number.

use crate::primitives::*;
use pytree_transform::{DType, Tensor};

/// The threshold of LAPACK's test programs.
const THRESHOLD: f64 = 30.0;

const SIZES: [usize; 12] = [1, 2, 3, 4, 5, 6, 7, 8, 13, 21, 33, 64];

/// A matrix of the standing set: a name, and each element by its row and column and the number of rows. Each matrix is
/// symmetric, so that all factorizations apply.
pub(super) type Sample = (&'static str, fn(usize, usize, usize) -> f64);

/// Returns a number between -1 and 1 that looks random and depends on the order of neither argument.
fn noise(row: usize, column: usize) -> f64 {
    let (first, second) = (row.min(column) as f64, row.max(column) as f64);
    let mixed = (12.9898 * (first + 1.0) + 78.233 * (second + 1.0)).sin() * 43_758.547;
    2.0 * (mixed - mixed.floor()) - 1.0
}

/// Returns an element of the product of a matrix with `rank` columns and its transpose.
fn gram(row: usize, column: usize, rank: usize) -> f64 {
    (0..rank)
        .map(|k| noise(row, 70 + k) * noise(column, 70 + k))
        .sum()
}

/// Returns an element of `(I - 2 v vᵀ) D (I - 2 v vᵀ)`, where all elements of the unit vector `v` are equal: a full matrix
/// with the eigenvalues `D`.
fn with_eigenvalues(row: usize, column: usize, size: usize, value: fn(usize) -> f64) -> f64 {
    let n = size as f64;
    let reflection = |i: usize, j: usize| f64::from(u8::from(i == j)) - 2.0 / n;
    (0..size)
        .map(|k| reflection(row, k) * value(k) * reflection(k, column))
        .sum()
}

fn is_at(row: usize, column: usize, difference: usize) -> f64 {
    f64::from(u8::from(row.abs_diff(column) == difference))
}

#[rustfmt::skip]
const FINITE: [Sample; 27] = [
    ("zeros", |_, _, _| 0.0),
    ("ones", |_, _, _| 1.0),
    ("a constant", |_, _, _| -0.1),
    ("identity", |i, j, _| is_at(i, j, 0)),
    ("exchange", |i, j, n| f64::from(u8::from(i + j + 1 == n))),
    ("parities", |i, j, _| (i % 2 + j % 2) as f64 / 2.0),
    ("a checkerboard", |i, j, _| ((i + j) % 2) as f64),
    ("one element", |i, j, n| f64::from(u8::from(i == n / 2 && j == n / 2))),
    ("a diagonal with zeros", |i, j, _| is_at(i, j, 0) * (i % 3) as f64),
    ("rank 1", |i, j, _| gram(i, j, 1)),
    ("rank 1 of integers", |i, j, _| ((i % 5 + 1) * (j % 5 + 1)) as f64),
    ("rank 2", |i, j, _| gram(i, j, 2)),
    ("low rank", |i, j, n| gram(i, j, n / 3 + 1)),
    ("low rank, negative", |i, j, n| -gram(i, j, n / 4 + 1)),
    ("full rank", |i, j, n| gram(i, j, 2 * n) + is_at(i, j, 0)),
    ("noise", |i, j, _| noise(i, j)),
    ("repeated eigenvalues", |i, j, n| with_eigenvalues(i, j, n, |k| (k % 3) as f64 - 1.0)),
    ("one other eigenvalue", |i, j, n| with_eigenvalues(i, j, n, |k| if k == 0 { 5.0 } else { 1.0 })),
    ("clustered eigenvalues", |i, j, n| with_eigenvalues(i, j, n, |k| 1.0 + 1e-9 * k as f64)),
    ("geometric eigenvalues", |i, j, n| with_eigenvalues(i, j, n, |k| 0.5_f64.powf(k as f64))),
    ("Hilbert", |i, j, _| 1.0 / (i + j + 1) as f64),
    ("second differences", |i, j, _| 2.0 * is_at(i, j, 0) - is_at(i, j, 1)),
    ("Wilkinson", |i, j, n| is_at(i, j, 0) * i.abs_diff(n / 2) as f64 + is_at(i, j, 1)),
    ("graded", |i, j, _| noise(i, j) * 0.1_f64.powf(((i + j) / 4) as f64)),
    ("graded upwards", |i, j, _| noise(i, j) * 2_f64.powf(((i + j) / 4) as f64)),
    ("rows of extreme scales", |i, j, _| noise(i, j) * [1e-15, 1.0, 1e15][i % 3] * [1e-15, 1.0, 1e15][j % 3]),
    ("weak couplings", |i, j, _| is_at(i, j, 0) * (i / 2) as f64 + is_at(i, j, 1) * 1e-30),
];

/// The scales of the matrices: ordinary, near overflow, near underflow, and subnormal numbers.
fn scales(dtype: DType) -> [f64; 4] {
    let exponents = match dtype {
        DType::F32 => [0, 20, -60, -130],
        _ => [0, 900, -900, -1050],
    };
    exponents.map(|exponent| 2_f64.powi(exponent / 2) * 2_f64.powi(exponent - exponent / 2))
}

/// A matrix in row-major order, in f64.
#[derive(Clone)]
pub(super) struct Matrix {
    rows: usize,
    columns: usize,
    elements: Vec<f64>,
}

impl Matrix {
    fn new(rows: usize, columns: usize, element: impl Fn(usize, usize) -> f64) -> Self {
        let elements = (0..rows * columns)
            .map(|position| element(position / columns, position % columns))
            .collect();
        Self {
            rows,
            columns,
            elements,
        }
    }

    /// Reads a tensor `[rows, columns]`, whose elements are divided by `scale`.
    fn of(tensor: &Tensor, scale: f64) -> Self {
        let elements = tensor.convert(DType::F64).to_vec::<f64>();
        let [rows, columns] = *tensor.shape() else {
            panic!("a matrix")
        };
        Self::new(rows, columns, |i, j| elements[i * columns + j] / scale)
    }

    fn at(&self, row: usize, column: usize) -> f64 {
        self.elements[row * self.columns + column]
    }

    fn tensor(&self, dtype: DType) -> Tensor {
        let flat = Tensor::from(self.elements.clone());
        flat.reshape([self.rows, self.columns]).convert(dtype)
    }

    fn transposed(&self) -> Self {
        Self::new(self.columns, self.rows, |i, j| self.at(j, i))
    }

    fn times(&self, other: &Self) -> Self {
        let mut product = Self::new(self.rows, other.columns, |_, _| 0.0);
        for i in 0..self.rows {
            let target = &mut product.elements[i * other.columns..][..other.columns];
            for k in 0..self.columns {
                let factor = self.at(i, k);
                for (sum, element) in target.iter_mut().zip(&other.elements[k * other.columns..]) {
                    *sum += factor * element;
                }
            }
        }
        product
    }

    /// Multiplies the columns by the given numbers.
    fn scaled(&self, numbers: &[f64]) -> Self {
        Self::new(self.rows, self.columns, |i, j| self.at(i, j) * numbers[j])
    }

    fn minus(&self, other: &Self) -> Self {
        Self::new(self.rows, self.columns, |i, j| {
            self.at(i, j) - other.at(i, j)
        })
    }

    /// The greatest sum of absolute values in a column. NaN gives infinity.
    fn norm(&self) -> f64 {
        (0..self.columns)
            .map(|j| (0..self.rows).map(|i| self.at(i, j).abs()).sum::<f64>())
            .fold(0.0, |greatest, sum| {
                if sum.is_nan() {
                    f64::INFINITY
                } else {
                    sum.max(greatest)
                }
            })
    }

    fn identity_minus_gram(&self) -> Self {
        let gram = self.transposed().times(self);
        Self::new(self.columns, self.columns, |i, j| {
            is_at(i, j, 0) - gram.at(i, j)
        })
    }
}

/// One matrix of the standing set, as it is after rounding to its dtype, and what its errors are compared with.
pub(super) struct Check {
    name: String,
    matrix: Tensor,
    /// The elements divided by `scale`.
    exact: Matrix,
    scale: f64,
    epsilon: f64,
    /// The distance of subnormal numbers, divided by `scale`.
    smallest: f64,
    /// The bound of an error, divided by the size, the norm of the matrix and the machine epsilon.
    pub(super) threshold: f64,
}

impl Check {
    pub(super) fn new(
        (name, element): Sample,
        [rows, columns]: [usize; 2],
        dtype: DType,
        scale: f64,
    ) -> Self {
        let size = rows.max(columns);
        let matrix = Matrix::new(rows, columns, |i, j| element(i, j, size) * scale).tensor(dtype);
        let (epsilon, smallest) = match dtype {
            DType::F32 => (f64::from(f32::EPSILON), f64::from(f32::from_bits(1))),
            _ => (f64::EPSILON, f64::from_bits(1)),
        };
        Self {
            name: format!("{name}, {rows}×{columns} of {dtype}, scale {scale:e}"),
            exact: Matrix::of(&matrix, scale),
            matrix,
            scale,
            epsilon,
            smallest: smallest / scale,
            threshold: THRESHOLD,
        }
    }

    fn assert_small(&self, error: &Matrix, what: &str) {
        let size = error.rows.max(error.columns).max(self.exact.rows) as f64;
        let bound =
            self.threshold * size * (self.exact.norm() * self.epsilon + 4.0 * self.smallest);
        let found = error.norm();
        assert!(
            found <= bound,
            "{}: {what}: {found:e} above {bound:e}",
            self.name
        );
    }

    fn assert_orthonormal(&self, columns: &Matrix, what: &str) {
        let found = columns.identity_minus_gram().norm();
        let bound = self.threshold * columns.rows as f64 * self.epsilon;
        assert!(
            found <= bound,
            "{}: {what}: {found:e} above {bound:e}",
            self.name
        );
    }

    fn scaled_values(&self, values: &Tensor) -> Vec<f64> {
        let values = values.convert(DType::F64).to_vec::<f64>();
        values.iter().map(|value| value / self.scale).collect()
    }

    pub(super) fn eigh(&self) {
        let (values, vectors) = eigh(&self.matrix).unwrap();
        let (values, vectors) = (self.scaled_values(&values), Matrix::of(&vectors, 1.0));
        let residual = self.exact.times(&vectors).minus(&vectors.scaled(&values));
        self.assert_small(&residual, "A V - V diag(w)");
        self.assert_orthonormal(&vectors, "eigenvectors");
        assert!(values.is_sorted(), "{}: {values:?}", self.name);
    }

    pub(super) fn svd(&self) {
        let [u, s, v_t] = svd(&self.matrix).unwrap();
        let (u, v) = (Matrix::of(&u, 1.0), Matrix::of(&v_t, 1.0).transposed());
        let s = self.scaled_values(&s);
        let residual = u.scaled(&s).times(&v.transposed()).minus(&self.exact);
        self.assert_small(&residual, "U diag(s) Vᵀ - A");
        self.assert_orthonormal(&u, "U");
        self.assert_orthonormal(&v, "V");
        let is_descending = s.is_sorted_by(|left, right| left >= right);
        assert!(
            is_descending && s.iter().all(|&s| s >= 0.0),
            "{}: {s:?}",
            self.name
        );
    }

    pub(super) fn qr(&self) {
        let (q, r) = qr(&self.matrix).unwrap();
        let (q, r) = (Matrix::of(&q, 1.0), Matrix::of(&r, self.scale));
        self.assert_small(&q.times(&r).minus(&self.exact), "Q R - A");
        self.assert_orthonormal(&q, "Q");
        let below = Matrix::new(
            r.rows,
            r.columns,
            |i, j| if i > j { r.at(i, j) } else { 0.0 },
        );
        assert!(below.norm() <= 0.0, "{}: R is not triangular", self.name);
    }

    pub(super) fn lu(&self) {
        let factors = lu(&self.matrix).unwrap();
        let packed = factors.packed.convert(DType::F64).to_vec::<f64>();
        let order = factors.permutation.to_vec::<i32>();
        let size = order.len();
        let lower = Matrix::new(size, size, |i, j| match i.cmp(&j) {
            std::cmp::Ordering::Less => 0.0,
            std::cmp::Ordering::Equal => 1.0,
            std::cmp::Ordering::Greater => packed[i * size + j],
        });
        let upper = Matrix::new(size, size, |i, j| {
            if i > j {
                0.0
            } else {
                packed[i * size + j] / self.scale
            }
        });
        let permuted = Matrix::new(size, size, |i, j| {
            self.exact.at(order[i].unsigned_abs() as usize, j)
        });
        self.assert_small(&lower.times(&upper).minus(&permuted), "L U - P A");
        assert!(
            lower.elements.iter().all(|element| element.abs() <= 1.0),
            "{}: L",
            self.name
        );
    }

    /// A matrix that is not positive definite has a factor of NaN. Rounding may make it definite.
    fn cholesky(&self, must_exist: bool) {
        let lower = Matrix::of(&cholesky(&self.matrix).unwrap(), self.scale.sqrt());
        let is_nan = (0..lower.rows).all(|i| (0..=i).all(|j| lower.at(i, j).is_nan()));
        if is_nan && !must_exist {
            return;
        }
        let residual = lower.times(&lower.transposed()).minus(&self.exact);
        self.assert_small(&residual, "L Lᵀ - A");
    }
}

fn check_squares(dtype: DType) {
    for size in SIZES {
        for sample in FINITE {
            let check = Check::new(sample, [size, size], dtype, 1.0);
            check.eigh();
            check.svd();
            check.qr();
            check.lu();
            check.cholesky(sample.0 == "full rank" || sample.0 == "identity");
        }
    }
}

#[test]
fn factorizations_of_f32_keep_bounds_of_lapack() {
    check_squares(DType::F32);
}

#[test]
fn factorizations_of_f64_keep_bounds_of_lapack() {
    check_squares(DType::F64);
}

#[test]
fn factorizations_keep_bounds_at_extreme_scales() {
    for dtype in [DType::F32, DType::F64] {
        for scale in scales(dtype) {
            for size in [1, 2, 3, 8, 21] {
                for sample in FINITE {
                    let check = Check::new(sample, [size, size], dtype, scale);
                    check.eigh();
                    check.svd();
                    check.qr();
                }
            }
        }
    }
}

#[test]
fn rectangular_matrices_keep_bounds_of_lapack() {
    for dtype in [DType::F32, DType::F64] {
        for [m, n] in [
            [1, 2],
            [2, 1],
            [1, 9],
            [9, 1],
            [3, 5],
            [5, 3],
            [12, 7],
            [7, 12],
            [64, 5],
            [5, 64],
            [40, 33],
        ] {
            for sample in FINITE {
                let check = Check::new(sample, [m, n], dtype, 1.0);
                check.svd();
                check.qr();
            }
        }
    }
}

#[test]
fn eigenvalues_agree_with_formulas() {
    for size in SIZES {
        let n = size as f64;
        let cosine = |k: usize| (std::f64::consts::PI * (k + 1) as f64 / (n + 1.0)).cos();
        let element = |name: &str| {
            FINITE
                .iter()
                .find(|sample| sample.0 == name)
                .copied()
                .unwrap()
        };
        let mut cases = vec![
            (
                "ones",
                (0..size)
                    .map(|k| if k + 1 == size { n } else { 0.0 })
                    .collect::<Vec<f64>>(),
            ),
            ("identity", vec![1.0; size]),
            (
                "second differences",
                (0..size).map(|k| 2.0 - 2.0 * cosine(k)).collect(),
            ),
            (
                "repeated eigenvalues",
                (0..size).map(|k| (k % 3) as f64 - 1.0).collect(),
            ),
        ];
        for (name, expected) in &mut cases {
            expected.sort_by(f64::total_cmp);
            for dtype in [DType::F32, DType::F64] {
                let check = Check::new(element(name), [size, size], dtype, 1.0);
                let found = check.scaled_values(&eigh(&check.matrix).unwrap().0);
                let mut singular = check.scaled_values(&svd(&check.matrix).unwrap()[1]);
                let mut absolute: Vec<f64> = expected.iter().map(|value| value.abs()).collect();
                absolute.sort_by(f64::total_cmp);
                singular.reverse();
                let bound = 10.0 * n * check.epsilon;
                for (found, expected) in [(&found, &*expected), (&singular, &absolute)] {
                    for (found, expected) in found.iter().zip(expected) {
                        assert!(
                            (found - expected).abs() <= bound,
                            "{}: {found} {expected}",
                            check.name
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn matrices_with_nan_or_infinity_have_no_finite_factors() {
    for dtype in [DType::F32, DType::F64] {
        for size in SIZES {
            for special in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                for position in [
                    (0, 0),
                    (size - 1, 0),
                    (size / 2, size / 2),
                    (size - 1, size - 1),
                ] {
                    for (name, element) in [FINITE[0], FINITE[1], FINITE[14], FINITE[15]] {
                        let matrix = Matrix::new(size, size, |i, j| {
                            if (i.max(j), i.min(j)) == position {
                                special
                            } else {
                                element(i, j, size)
                            }
                        });
                        let a = matrix.tensor(dtype);
                        let numbers = |tensor: &Tensor| tensor.convert(DType::F64).to_vec::<f64>();
                        let name = format!(
                            "{name} with {special} at {position:?}, {size} rows of {dtype}"
                        );
                        let (w, v) = eigh(&a).unwrap();
                        let [u, s, v_t] = svd(&a).unwrap();
                        for tensor in [&w, &v, &u, &s, &v_t] {
                            assert!(numbers(tensor).iter().all(|x| x.is_nan()), "{name}");
                        }
                        let factor = numbers(&cholesky(&a).unwrap());
                        let is_nan = |position: usize| {
                            factor[position].is_nan() || position % size > position / size
                        };
                        assert!(
                            (0..factor.len()).all(is_nan),
                            "cholesky of {name}: {factor:?}"
                        );
                        let (q, r) = qr(&a).unwrap();
                        let all = [numbers(&q), numbers(&r)].concat();
                        assert!(!all.iter().all(|x| x.is_finite()), "qr of {name}: {all:?}");
                        let packed = numbers(&lu(&a).unwrap().packed);
                        assert!(
                            !packed.iter().all(|x| x.is_finite()),
                            "lu of {name}: {packed:?}"
                        );
                    }
                }
            }
        }
    }
}
