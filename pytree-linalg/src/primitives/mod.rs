//! The primitives, each with all its rules.
//!
//! The last two axes of each operand are the axes of matrices. The axes before them are batch axes, which all operands
//! of a primitive share. So the batching rule of each primitive returns the same primitive with one more batch axis.
//!
//! The bits of a result depend on shapes alone. QR follows LAPACK, so its signs are those of JAX. `lu_solve` has the matrix and
//! its factors as operands, so no derivative of a solution factorizes again. So has `implicit`, for logarithms of determinants and
//! least squares. `determinant` is a primitive, because its derivative is finite at singular matrices.

mod cholesky;
mod determinant;
mod eigh;
mod implicit;
mod implicit_rules;
mod least_squares;
mod lowering;
mod lu;
mod lu_solve;
pub(crate) mod matrices;
mod qr;
mod svd;
#[cfg(test)]
mod tests;
mod triangular_solve;

pub(crate) use self::cholesky::cholesky;
pub(crate) use self::determinant::determinant;
pub(crate) use self::eigh::eigh;
pub(crate) use self::implicit::Implicit;
pub(crate) use self::least_squares::Decomposition;
pub(crate) use self::lu::lu;
pub(crate) use self::lu_solve::lu_solve;
pub(crate) use self::qr::qr;
pub(crate) use self::svd::svd;
pub(crate) use self::triangular_solve::{Side, Triangle, TriangularSolve};
