//! Linear algebra on matrices of f32 or f64, with derivatives of each order: `jax.numpy.linalg` and
//! `jax.scipy.linalg`. Needs the feature `linalg`.
//!
//! The last two axes of a tensor are the axes of a matrix. The axes before them are batch axes: each function computes a
//! result for each matrix.

mod determinants;
mod factors;
mod systems;

pub use self::determinants::{det, slogdet, try_det, try_slogdet};
pub use self::factors::{cholesky, eigh, qr, svd, try_cholesky, try_eigh, try_qr, try_svd};
pub use self::systems::{
    LeastSquares, Triangular, cho_solve, inv, lstsq, solve, triangular_solve, try_cho_solve,
    try_inv, try_lstsq, try_solve, try_triangular_solve,
};
