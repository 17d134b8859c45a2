//! Systems of linear equations.

use pytree_derive::panicking_twin;
use pytree_transform::extend::called;
use pytree_transform::{DType, Tensor, TensorError, ix};

use crate::primitives::matrices::{adjoint, check_real, identity, product};
use crate::primitives::{
    Decomposition, Implicit, Side, Triangle, TriangularSolve, lu, lu_solve, svd,
};

/// Returns an error if the last two axes do not have the same length.
pub(crate) fn check_square(operation: &'static str, matrix: &Tensor) -> Result<(), TensorError> {
    let problem = match *matrix.shape() {
        [.., rows, columns] if rows == columns => return Ok(()),
        [.., rows, columns] => format!("the matrices have {rows} rows and {columns} columns"),
        _ => format!(
            "the tensor has {} axes, but a matrix has 2 or more",
            matrix.rank()
        ),
    };
    Err(TensorError::shape(
        operation,
        &[matrix.info()],
        problem,
        "pass square matrices: the last two axes must have the same length",
    ))
}

/// The right side `B` of equations, prepared for a system whose matrices have the same batch axes.
struct RightSide {
    matrix: Tensor,
    right: Tensor,
    /// Converts the solution back to the shape that the user expects.
    restore: Restore,
}

enum Restore {
    Nothing,
    /// `b` was a vector, which became a column.
    Vector,
    /// The batch axes of `b` became more columns of a single system. This is the shape of `[n, batch..., k]`.
    Columns(Vec<usize>),
    /// The batch axes of `b` became more rows of a single system. This is the shape of the solution.
    Rows(Vec<usize>),
}

/// Returns the lengths to which axes broadcast, or `None` if they do not.
fn broadcast_shapes(left: &[usize], right: &[usize]) -> Option<Vec<usize>> {
    let rank = left.len().max(right.len());
    let length = |shape: &[usize], axis: usize| match (axis + shape.len()).checked_sub(rank) {
        Some(axis) => shape[axis],
        None => 1,
    };
    let axes = (0..rank).map(|axis| match (length(left, axis), length(right, axis)) {
        (1, length) | (length, 1) => Some(length),
        (left, right) => (left == right).then_some(left),
    });
    axes.collect()
}

/// Repeats matrices along the batch axes with the lengths `batch`.
#[track_caller]
fn with_batch_axes(tensor: &Tensor, batch: &[usize]) -> Result<Tensor, TensorError> {
    let lengths = &tensor.shape()[tensor.rank() - 2..];
    tensor.try_broadcast_to([batch, lengths].concat())
}

impl RightSide {
    /// Checks the shapes of `a: [..., n, n]` and `b: [n]` or `b: [..., n, k]`, or `b: [..., k, n]` if the matrix is at
    /// the right. Broadcasts their batch axes.
    #[track_caller]
    fn new(
        operation: &'static str,
        a: &Tensor,
        b: &Tensor,
        side: Side,
    ) -> Result<Self, TensorError> {
        let operands = [a.info(), b.info()];
        check_real(operation, &operands)?;
        check_square(operation, a)?;
        let rank = a.rank();
        let size = a.shape()[rank - 1];
        let (length, what) = match (b.shape(), side) {
            (&[length], Side::Left) => (length, "elements"),
            (&[.., rows, _], Side::Left) => (rows, "rows"),
            (&[.., _, columns], Side::Right) => (columns, "columns"),
            _ => {
                let fix = "pass a matrix, for instance `b.expand_dims(0)`";
                let problem = format!("the right side has {} axes", b.rank());
                return Err(TensorError::shape(operation, &operands, problem, fix));
            }
        };
        if length != size {
            let problem =
                format!("the matrix has {size} rows, but the right side has {length} {what}");
            let fix =
                "did you mean to transpose one of them, or to add an axis with `.expand_dims(-1)`?";
            return Err(TensorError::shape(operation, &operands, problem, fix));
        }
        if b.rank() == 1 {
            let column = b.try_reshape([size, 1])?;
            let shape = [&a.shape()[..rank - 1], &[1]].concat();
            return Ok(Self {
                matrix: a.clone(),
                right: column.try_broadcast_to(&shape)?,
                restore: Restore::Vector,
            });
        }
        if rank == 2 && b.rank() > 2 {
            return Self::of_one_matrix(a, b, side);
        }
        let (of_a, of_b) = (&a.shape()[..rank - 2], &b.shape()[..b.rank() - 2]);
        let Some(batch) = broadcast_shapes(of_a, of_b) else {
            let problem = "the axes before the matrices do not broadcast: counted from the end, their lengths must be equal or 1";
            let fix = "reshape one of the tensors";
            return Err(TensorError::shape(operation, &operands, problem, fix));
        };
        Ok(Self {
            matrix: with_batch_axes(a, &batch)?,
            right: with_batch_axes(b, &batch)?,
            restore: Restore::Nothing,
        })
    }

    /// Joins the batch axes of `b` with its columns or rows. So a single matrix is factorized once.
    #[track_caller]
    fn of_one_matrix(a: &Tensor, b: &Tensor, side: Side) -> Result<Self, TensorError> {
        let size = a.shape()[1];
        let (right, restore) = if side == Side::Right {
            let rows: usize = b.shape()[..b.rank() - 1].iter().product();
            let right = b.try_reshape([rows, size])?;
            (right, Restore::Rows(b.shape().to_vec()))
        } else {
            let moved = b.try_move_axis(-2, 0)?;
            let columns: usize = moved.shape()[1..].iter().product();
            let right = moved.try_reshape([size, columns])?;
            (right, Restore::Columns(moved.shape().to_vec()))
        };
        let matrix = a.clone();
        Ok(Self {
            matrix,
            right,
            restore,
        })
    }

    #[track_caller]
    fn restored(&self, solution: &Tensor) -> Result<Tensor, TensorError> {
        match &self.restore {
            Restore::Nothing => Ok(solution.clone()),
            Restore::Vector => solution.try_reshape(&solution.shape()[..solution.rank() - 1]),
            Restore::Rows(shape) => solution.try_reshape(shape),
            Restore::Columns(shape) => {
                let moved = solution.try_reshape(shape)?;
                moved.try_move_axis(0, -2)
            }
        }
    }
}

/// Returns the solution `X` of `A X = B`, like `jnp.linalg.solve`. `a: [..., n, n]` has square matrices. `b` is a vector
/// `[n]`, and then the solution has the shape `[..., n]`, or `b: [..., n, k]`, and the solution has this shape. The axes
/// before the matrices broadcast.
///
/// The matrices are factorized once (LU with exchanges of rows), also for derivatives of each order. A singular matrix
/// gives infinities or NaN.
///
/// # Panics
/// Panics if the shapes do not match, or if the dtypes are not both f32 or both f64.
///
/// # Examples
/// ```
/// use pytree_linalg as linalg;
/// use pytree_transform::Tensor;
/// let a = Tensor::from([[0.0, 2.0], [4.0, 0.0]]);
/// assert_eq!(linalg::solve(&a, &Tensor::from([2.0, 8.0])), Tensor::from([2.0, 1.0]));
/// ```
#[doc(alias("jnp.linalg.solve", "np.linalg.solve", "torch.linalg.solve"))]
#[must_use]
#[panicking_twin(solve, Shape | DType)]
pub fn try_solve(a: &Tensor, b: &Tensor) -> Result<Tensor, TensorError> {
    let operation = "apply `linalg::solve` to";
    let _called = called(operation);
    let system = RightSide::new(operation, a, b, Side::Left)?;
    let factors = lu(&system.matrix.stop_gradient())?;
    let solution = lu_solve(&system.matrix, &factors, &system.right)?;
    system.restored(&solution)
}

/// Returns the inverse of each matrix of `a: [..., n, n]`, like `jnp.linalg.inv`. A singular matrix gives infinities or
/// NaN. To solve equations, use [`solve`], which is faster and more accurate.
///
/// # Panics
/// Panics if the last two axes do not have the same length, or if the dtype is neither f32 nor f64.
///
/// # Examples
/// ```
/// use pytree_linalg as linalg;
/// use pytree_transform::Tensor;
/// let a = Tensor::from([[0.0, 2.0], [4.0, 0.0]]);
/// assert_eq!(linalg::inv(&a), Tensor::from([[0.0, 0.25], [0.5, 0.0]]));
/// ```
#[doc(alias("jnp.linalg.inv", "np.linalg.inv", "torch.linalg.inv"))]
#[must_use]
#[panicking_twin(inv, composed, Shape | DType)]
pub fn try_inv(a: &Tensor) -> Result<Tensor, TensorError> {
    let operation = "apply `linalg::inv` to";
    let _called = called(operation);
    check_real(operation, &[a.info()])?;
    check_square(operation, a)?;
    let factors = lu(&a.stop_gradient())?;
    lu_solve(a, &factors, &identity(a))
}

/// The triangular matrix of a system of equations: the triangle that is read, and how it is used. The elements outside
/// of the triangle are not read, and count as zeros.
///
/// # Examples
/// ```
/// use pytree_linalg::{Triangular, triangular_solve};
/// use pytree_transform::Tensor;
/// let l = Tensor::from([[2.0, 9.0], [1.0, 4.0]]);
/// let b = Tensor::from([2.0, 9.0]);
/// assert_eq!(triangular_solve(&l, &b, Triangular::lower()), Tensor::from([1.0, 2.0]));
/// let transposed = triangular_solve(&l, &b, Triangular::lower().transposed());
/// assert_eq!(transposed, Tensor::from([-0.125, 2.25]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Triangular(TriangularSolve);

impl Triangular {
    /// Reads the lower triangle: `lower=True` in JAX.
    #[must_use]
    pub fn lower() -> Self {
        Self(TriangularSolve::new(Triangle::Lower))
    }

    /// Reads the upper triangle: `lower=False`, the default in JAX.
    #[must_use]
    pub fn upper() -> Self {
        Self(TriangularSolve::new(Triangle::Upper))
    }

    /// Transposes the matrix: `transpose_a=True` of `jax.lax.linalg.triangular_solve`, or `trans=1` of
    /// `jax.scipy.linalg.solve_triangular`.
    #[must_use]
    pub fn transposed(self) -> Self {
        Self(self.0.transposed())
    }

    /// Does not read the diagonal, which counts as ones: `unit_diagonal=True` in JAX.
    #[must_use]
    pub fn unit_diagonal(self) -> Self {
        Self(self.0.with_unit_diagonal())
    }

    /// Solves `X A = B` instead of `A X = B`: `left_side=False` of `jax.lax.linalg.triangular_solve`.
    #[must_use]
    pub fn right_side(self) -> Self {
        Self(self.0.on_side(Side::Right))
    }
}

/// Returns the solution `X` of `A X = B` for triangular matrices `a: [..., n, n]`, like
/// `jax.scipy.linalg.solve_triangular`. `triangular` says which triangle is read. `b` is a vector `[n]`, and then the
/// solution has the shape `[..., n]`, or `b: [..., n, k]`. With [`Triangular::right_side`] the equations are `X A = B`,
/// and `b: [..., k, n]`. The axes before the matrices broadcast.
///
/// A zero on the diagonal gives infinities or NaN.
///
/// # Panics
/// Panics if the shapes do not match, or if the dtypes are not both f32 or both f64.
///
/// # Examples
/// ```
/// use pytree_linalg::{Triangular, triangular_solve};
/// use pytree_transform::Tensor;
/// let u = Tensor::from([[2.0, 1.0], [0.0, 4.0]]);
/// let b = Tensor::from([[4.0], [8.0]]);
/// assert_eq!(triangular_solve(&u, &b, Triangular::upper()), Tensor::from([[1.0], [2.0]]));
/// ```
#[doc(alias(
    "lax.linalg.triangular_solve",
    "scipy.linalg.solve_triangular",
    "torch.linalg.solve_triangular"
))]
#[must_use]
#[panicking_twin(triangular_solve, composed, Shape | DType)]
pub fn try_triangular_solve(
    a: &Tensor,
    b: &Tensor,
    triangular: Triangular,
) -> Result<Tensor, TensorError> {
    let operation = "apply `linalg::triangular_solve` to";
    let _called = called(operation);
    let system = RightSide::new(operation, a, b, triangular.0.side)?;
    system.restored(&triangular.0.apply(&system.matrix, &system.right))
}

/// Returns the solution `X` of `L Lᵀ X = B`, where `l: [..., n, n]` is the result of [`cholesky`](super::cholesky), like
/// `jax.scipy.linalg.cho_solve`. `b` has the shape `[n]` or `[..., n, k]`; see [`solve`].
///
/// # Panics
/// Panics if the shapes do not match, or if the dtypes are not both f32 or both f64.
///
/// # Examples
/// ```
/// use pytree_linalg as linalg;
/// use pytree_transform::Tensor;
/// let a = Tensor::from([[4.0, 2.0], [2.0, 5.0]]);
/// let x = linalg::cho_solve(&linalg::cholesky(&a), &Tensor::from([8.0, 12.0]));
/// assert_eq!(x, Tensor::from([1.0, 2.0]));
/// ```
#[doc(alias("scipy.linalg.cho_solve", "torch.cholesky_solve"))]
#[must_use]
#[panicking_twin(cho_solve, composed, Shape | DType)]
pub fn try_cho_solve(l: &Tensor, b: &Tensor) -> Result<Tensor, TensorError> {
    let operation = "apply `linalg::cho_solve` to";
    let _called = called(operation);
    let system = RightSide::new(operation, l, b, Side::Left)?;
    let lower = TriangularSolve::new(Triangle::Lower);
    let half = lower.apply(&system.matrix, &system.right);
    system.restored(&lower.transposed().apply(&system.matrix, &half))
}

/// The results of [`lstsq`].
#[derive(Clone, Debug)]
pub struct LeastSquares {
    /// The solution of the least norm: `[n]` for a vector `b`, else `[n, k]`.
    pub solution: Tensor,
    /// The sum of squares of `B - A X` for each column of `b`: `[1]` for a vector `b`, else `[k]`.
    pub residuals: Tensor,
    /// The number of singular values above the limit, as i32.
    pub rank: Tensor,
    /// The singular values of `A` in descending order.
    pub singular_values: Tensor,
}

/// Returns the `X` that minimizes the sum of squares of `A X - B`, like `jnp.linalg.lstsq`. `a: [m, n]` is a single
/// matrix, and `b: [m]` or `b: [m, k]`.
///
/// Singular values below `rcond` times the greatest one count as zeros. The default of JAX is the machine epsilon times
/// max(m, n), which `None` selects. The derivative is that of Golub and Pereyra, "The differentiation of pseudo-inverses
/// and nonlinear least squares problems whose variables separate" (1973). It needs no derivative of singular vectors, so
/// it is finite for equal singular values, too. Singular values that count as zeros do so in the derivatives, too.
///
/// # Panics
/// Panics if `a` is not a matrix, if `b` does not have as many rows, or if the dtypes are not both f32 or both f64. Panics if the
/// iteration for singular values does not converge.
///
/// # Examples
/// ```
/// use pytree_linalg as linalg;
/// use pytree_transform::Tensor;
/// let a = Tensor::from([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]);
/// let line = linalg::lstsq(&a, &Tensor::from([1.0, 3.0, 5.0]), None);
/// assert!((line.solution - Tensor::from([1.0, 2.0])).abs().max().item::<f64>() < 1e-14);
/// assert_eq!(line.rank, Tensor::from(2));
/// ```
#[doc(alias("jnp.linalg.lstsq", "np.linalg.lstsq", "torch.linalg.lstsq"))]
#[must_use]
#[panicking_twin(lstsq, composed, Shape | DType | NotConverged)]
pub fn try_lstsq(a: &Tensor, b: &Tensor, rcond: Option<f64>) -> Result<LeastSquares, TensorError> {
    let operation = "apply `linalg::lstsq` to";
    let _called = called(operation);
    let operands = [a.info(), b.info()];
    check_real(operation, &operands)?;
    let (&[m, n], &[rows] | &[rows, _]) = (a.shape(), b.shape()) else {
        let problem = "the first tensor must have 2 axes, and the second must have 1 or 2";
        let fix = "use `vmap` for a batch of matrices";
        return Err(TensorError::shape(operation, &operands, problem, fix));
    };
    if rows != m {
        let problem = format!("the matrix has {m} rows, but the right side has {rows}");
        let fix = "did you mean to transpose one of them?";
        return Err(TensorError::shape(operation, &operands, problem, fix));
    }
    let columns = b.shape().get(1).copied().unwrap_or(1);
    let right = b.try_reshape([m, columns])?;
    let fixed = svd(&a.stop_gradient())?;
    let [u, s, v_t] = &fixed;
    let singular_values = Implicit::Singular(1).apply(s, a, &[u, s, v_t]);
    let epsilon = if a.dtype() == DType::F32 {
        f64::from(f32::EPSILON)
    } else {
        f64::EPSILON
    };
    let rcond = match rcond {
        None => epsilon * m.max(n) as f64,
        Some(rcond) if rcond < 0.0 => epsilon,
        Some(rcond) => rcond,
    };
    let is_kept = kept(s, rcond);
    // The decomposition is that of a matrix with at least as many rows as columns.
    let is_wide = n > m;
    let (tall, u, v_t) = if is_wide {
        (adjoint(a), adjoint(v_t), adjoint(u))
    } else {
        (a.clone(), u.clone(), v_t.clone())
    };
    let decomposition = Decomposition {
        u,
        s: s.clone(),
        v_t,
        is_kept: is_kept.clone(),
    };
    let solution = decomposition.solve(is_wide, &tall, &right);
    let rest = &right - product(a, &solution);
    let shape = if b.rank() == 1 {
        vec![n]
    } else {
        vec![n, columns]
    };
    Ok(LeastSquares {
        solution: solution.try_reshape(shape)?,
        residuals: (&rest * &rest).try_sum_axes(0)?,
        rank: is_kept.convert(DType::I32).try_sum_axes(0)?,
        singular_values,
    })
}

/// Returns which singular values are above zero and at least `rcond` times the greatest one.
#[track_caller]
fn kept(s: &Tensor, rcond: f64) -> Tensor {
    if s.is_empty() {
        return Tensor::zeros(DType::Bool, s.shape());
    }
    // The singular values are in descending order.
    s.greater(0.0) & s.greater_equal(s.index(ix![0]) * rcond)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pytree_transform::{grad, jit, jvp, vmap};

    fn assert_near(found: &Tensor, expected: &Tensor, tolerance: f64) {
        let error = (found - expected).abs().max().item::<f64>();
        assert!(error < tolerance, "found {found}, expected {expected}");
    }

    /// Matrices with equal singular values, the rcond, and whether singular values count as zeros.
    fn matrices() -> Vec<(Tensor, Option<f64>)> {
        let two = Tensor::eye(DType::F64, 3) * 2.0;
        let tall = Tensor::from([[1.0, 1.0], [1.0, -1.0], [1.0, 1.0], [1.0, -1.0]]);
        let one_less = Tensor::from([[2.0, 0.0, 0.0], [0.0, 0.0, 2.0], [0.0, 0.25, 0.0]]);
        let less = Tensor::from([[0.0, 2.0], [-2.0, 0.0], [0.0, 0.0]]);
        let wide_less = Tensor::from([
            [2.0, 0.0, 0.0, 0.0],
            [0.0, 2.0, 0.0, 0.0],
            [0.0, 0.0, 0.1, 0.0],
        ]);
        vec![
            (two, None),
            (tall.clone(), None),
            (adjoint(&tall), None),
            (less.clone(), None),
            (adjoint(&less), None),
            (one_less, Some(0.5)),
            (wide_less.clone(), Some(0.5)),
            (adjoint(&wide_less), Some(0.5)),
        ]
    }

    /// Returns numbers between -1 and 1.
    fn direction(of: &Tensor, step: f64) -> Tensor {
        let count = Tensor::arange(DType::I32, of.len()).convert(DType::F64);
        (count * step + 1.0).sin().reshape(of.shape())
    }

    /// The first three derivatives along a direction are those of finite differences, and reverse mode agrees.
    #[test]
    fn lstsq_has_derivatives_at_equal_singular_values() {
        for (a, rcond) in matrices() {
            let b = direction(&Tensor::zeros(DType::F64, [a.shape()[0]]), 0.7);
            let solution = move |a: &Tensor| lstsq(a, &b, rcond).solution;
            let along = direction(&a, 1.3);
            let slope = {
                let (solution, along) = (solution.clone(), along.clone());
                move |a: &Tensor| jvp(&solution, a, &along).1
            };
            let step = 1e-5;
            let [ahead, behind] = [step, -step].map(|step| &a + &along * step);
            let difference = (solution(&ahead) - solution(&behind)) / (2.0 * step);
            assert_near(&slope(&a), &difference, 1e-8);
            let bend = |a: &Tensor| jvp(&slope, a, &along).1;
            let curvature = bend(&a);
            let difference = (slope(&ahead) - slope(&behind)) / (2.0 * step);
            assert_near(&curvature, &difference, 1e-7);
            let difference = (bend(&ahead) - bend(&behind)) / (2.0 * step);
            assert_near(&jvp(bend, &a, &along).1, &difference, 1e-6);

            let weights = direction(&slope(&a), 0.4);
            let gradient = grad(|a: &Tensor| (solution(a) * &weights).sum());
            let expected = (slope(&a) * &weights).sum();
            assert_near(&(gradient(&a) * &along).sum(), &expected, 1e-12);
            let second = grad(|a: &Tensor| (gradient(a) * &along).sum())(&a);
            let expected = (&curvature * &weights).sum();
            assert_near(&(&second * &along).sum(), &expected, 1e-11);
            let expected = slope(&a);
            let two = Tensor::stack(&[&a, &a], 1);
            let mapped = jit(vmap(move |a: Tensor| slope(&a)).in_axes(1));
            assert_near(&mapped(two), &expected, 1e-12);
        }
    }
}
