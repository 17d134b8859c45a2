//! Linear algebra: factorizations of matrices, and systems of linear equations.
//!
//! The last two axes of each operand are the axes of matrices. The axes before them are batch axes, which all operands
//! of a primitive share. So the batching rule of each primitive returns the same primitive with one more batch axis.
//!
//! `matrix_kernels.rs` computes on one matrix. It divides large matrices into blocks, multiplies the blocks by the kernels of
//! matrix products, and passes single blocks to the crate `nalgebra`.

mod cholesky;
mod determinant;
mod eigh;
mod lowering;
mod lu;
mod lu_solve;
mod matrices;
mod matrix_kernels;
mod qr;
mod spectral_kernels;
mod svd;
#[cfg(test)]
mod tests;
mod triangular_solve;

pub(crate) use self::cholesky::cholesky;
pub(crate) use self::determinant::{determinant, parity_sign};
pub(crate) use self::eigh::eigh;
pub(crate) use self::lu::lu;
pub(crate) use self::lu_solve::lu_solve;
pub(crate) use self::matrices::{adjoint, check_real, diagonal, identity, product};
pub(crate) use self::qr::qr;
pub(crate) use self::svd::svd;
pub(crate) use self::triangular_solve::{Side, Triangle, TriangularSolve};
