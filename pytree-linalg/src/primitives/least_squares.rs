//! Least squares with the singular value decomposition, and derivatives that do not need those of singular vectors.
//!
//! The derivative of a singular vector divides by the differences of the singular values. The solution of least squares
//! depends only on the row space and the column space of the singular values that count, so it has derivatives where these
//! values are equal.

use pytree_transform::{Tensor, jvp};

use crate::primitives::implicit::Implicit;
use crate::primitives::matrices::{adjoint, identity, product, spread};

/// Returns the tangent of the result of `function` at `primal`, where `tangent` is the tangent of `primal`.
pub(super) fn tangent_of(
    function: impl Fn(&Tensor) -> Tensor,
    primal: &Tensor,
    tangent: &Tensor,
) -> Tensor {
    jvp(|primal: &Tensor| function(primal), primal, tangent).1
}

/// The singular value decomposition of a matrix `A: […, m, n]` with m ≥ n. The tensors have no tangents.
#[derive(Clone, Debug)]
pub(crate) struct Decomposition {
    /// `[…, m, n]`.
    pub(crate) u: Tensor,
    /// `[…, n]`.
    pub(crate) s: Tensor,
    /// `[…, n, n]`.
    pub(crate) v_t: Tensor,
    /// Whether a singular value counts, or is replaced by zero: `bool[…, n]`.
    pub(crate) is_kept: Tensor,
}

impl Decomposition {
    pub(super) fn from_operands(operands: &[Tensor]) -> Self {
        Self {
            u: operands[0].clone(),
            s: operands[1].clone(),
            v_t: operands[2].clone(),
            is_kept: operands[3].clone(),
        }
    }

    fn operands(&self) -> [&Tensor; 4] {
        [&self.u, &self.s, &self.v_t, &self.is_kept]
    }

    /// Returns `A⁺ B`, or `A⁺ᵀ B`, where `A` is `matrix` without the singular values that are not kept.
    #[track_caller]
    pub(crate) fn solve(&self, is_transposed: bool, matrix: &Tensor, right: &Tensor) -> Tensor {
        let divisors = self.is_kept.select(&self.s, Tensor::ones_like(&self.s));
        let kept = self.is_kept.convert(self.s.dtype());
        let reciprocals = (kept / divisors).expand_dims(-1);
        let (from, to) = if is_transposed {
            (self.v_t.clone(), self.u.clone())
        } else {
            (adjoint(&self.u), adjoint(&self.v_t))
        };
        let value = product(&to, &(reciprocals * product(&from, right)));
        let others = [&self.operands()[..], &[right]].concat();
        Implicit::LeastSquares { is_transposed }.apply(&value, matrix, &others)
    }

    /// Returns the derivative of `x = C⁺ b` or `x = C⁺ᵀ b` with respect to the matrix, where `C` is the matrix without the
    /// singular values that are not kept. For matrices `C` of constant rank
    ///
    /// `x' = y + C⁺ (C⁺ᵀ C'ᵀ (b - C x) - C' x - C y)` with `y = C'ᵀ C⁺ᵀ x`
    ///
    /// (Golub and Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares problems whose variables
    /// separate", 1973, equation 4.12).
    pub(super) fn tangent(
        &self,
        is_transposed: bool,
        matrix: &Tensor,
        right: &Tensor,
        solution: &Tensor,
        tangent: &Tensor,
    ) -> Tensor {
        let turned = |operand: Tensor| {
            if is_transposed {
                adjoint(&operand)
            } else {
                operand
            }
        };
        let kept = |matrix: &Tensor| self.truncated(matrix);
        let of_kept = turned(tangent_of(kept, matrix, tangent));
        let kept = turned(kept(matrix));
        let moved = self.solve(!is_transposed, matrix, solution);
        let outside = product(&adjoint(&of_kept), &moved);
        let rest = right - product(&kept, solution);
        let of_rest = self.solve(!is_transposed, matrix, &product(&adjoint(&of_kept), &rest));
        let inside = of_rest - product(&of_kept, solution) - product(&kept, &outside);
        outside + self.solve(is_transposed, matrix, &inside)
    }

    /// Returns the matrix without the singular values that are not kept.
    fn truncated(&self, matrix: &Tensor) -> Tensor {
        if matrix.is_empty() {
            return matrix.clone();
        }
        let v = adjoint(&self.v_t);
        let kept = self.is_kept.convert(self.s.dtype());
        let value = product(&(v * kept.expand_dims(-2)), &self.v_t);
        let projector = Implicit::Projector.apply(&value, matrix, &self.operands());
        let is_whole = spread(&self.is_whole(), matrix.shape());
        is_whole.select(matrix, product(matrix, &projector))
    }

    /// Returns whether all singular values are kept: `bool[…]`.
    fn is_whole(&self) -> Tensor {
        self.is_kept.all_axes(-1)
    }

    /// Returns the tangent of the projector `P` on the space of the right singular vectors that are kept.
    ///
    /// With a number τ between the squares of the singular values that are kept and those of the others, `S = 2 P - I` is
    /// the sign of the symmetric matrix `H = AᵀA - τ I`. So its tangent is the solution of `N S' + S' N = H' - S H' S`, where
    /// `N = S H` is positive definite (Higham, "Functions of matrices", 2008, section 5.1). Here `A` is divided by its
    /// greatest singular value.
    pub(super) fn projector_tangent(
        &self,
        projector: &Tensor,
        matrix: &Tensor,
        tangent: &Tensor,
    ) -> Tensor {
        let (ones, zeros) = (Tensor::ones_like(&self.s), Tensor::zeros_like(&self.s));
        let greatest = spread(&self.s.max_axes(-1), self.s.shape());
        let greatest = greatest.equal(0.0).select(&ones, &greatest);
        let ratios = &self.s / &greatest;
        let squares = &ratios * &ratios;
        let least_kept = self.is_kept.select(&squares, &ones).min_axes(-1);
        let greatest_other = self.is_kept.select(&zeros, &squares).max_axes(-1);
        let limit = (least_kept + greatest_other) * 0.5;
        // If all values are kept, this tangent is not used. Yet it must be finite.
        let is_whole = spread(&self.is_whole(), self.s.shape());
        let distances = (squares - spread(&limit, self.s.shape())).abs();
        let distances = is_whole.select(&ones, &distances);
        let sums = distances.expand_dims(-2) + distances.expand_dims(-1);
        let divisor = spread(&greatest.max_axes(-1), matrix.shape());
        let (matrix, tangent) = (matrix / &divisor, tangent / &divisor);
        let identity = identity(projector);
        let signs = projector * 2.0 - &identity;
        let shift = spread(&limit, projector.shape()) * &identity;
        let shifted = product(&adjoint(&matrix), &matrix) - shift;
        let moved = product(&adjoint(&tangent), &matrix);
        let of_shifted = &moved + adjoint(&moved);
        let right = &of_shifted - product(&product(&signs, &of_shifted), &signs);
        lyapunov(&product(&signs, &shifted), &self.v_t, &(1.0 / sums), &right) * 0.5
    }
}

/// Returns the solution `X` of `A X + X A = B` for the operands of [`Implicit::Lyapunov`].
pub(super) fn lyapunov(
    matrix: &Tensor,
    v_t: &Tensor,
    reciprocals: &Tensor,
    right: &Tensor,
) -> Tensor {
    let v = adjoint(v_t);
    let inner = product(&product(v_t, right), &v) * reciprocals;
    let value = product(&product(&v, &inner), v_t);
    Implicit::Lyapunov.apply(&value, matrix, &[v_t, reciprocals, right])
}
