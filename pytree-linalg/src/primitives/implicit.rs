//! Results that are computed from factors, with tangents that need no derivative of the factors.

use pytree_transform::Tensor;
use pytree_transform::extend::apply;

/// Returns its first operand, which is a function of the second operand `A` and was computed from factors of `A` that have
/// no tangents. The other operands are what the rules need. So derivatives of each order exist where the derivatives of
/// the factors do not, and no derivative factorizes again. Its rules are in `implicit_rules.rs`.
///
/// The tangent of the first operand is ignored. The rules may apply the same primitive, so they can be differentiated any
/// number of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Implicit {
    /// log |det A|, with [`Factors`] of `A`.
    LogDeterminant,
    /// `U`, `s` or `Vᵀ` of the singular value decomposition: the result at this position. The operands are all three.
    Singular(usize),
    /// The orthogonal projector on the row space of the [`Decomposition`] of `A`.
    Projector,
    /// The solution `X` of `A X + X A = B` for symmetric, positive definite matrices `A`. The operands are the eigenvectors of
    /// `A`, the reciprocals of the sums of two eigenvalues, and `B`.
    Lyapunov,
    /// The product of `B` and the pseudo-inverse of `A`, or its transpose, with the [`Decomposition`] of `A`. The last operand
    /// is `B`.
    LeastSquares { is_transposed: bool },
}

impl Implicit {
    /// Returns `value` with the tangents of the variant.
    #[track_caller]
    pub(crate) fn apply(self, value: &Tensor, matrix: &Tensor, others: &[&Tensor]) -> Tensor {
        let operands = [&[value, matrix], others].concat();
        apply(&self, &operands).remove(0)
    }
}
