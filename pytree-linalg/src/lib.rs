//! Linear algebra on matrices of f32 or f64, with derivatives of each order: `jax.numpy.linalg` and
//! `jax.scipy.linalg`. It is `pytree::linalg`, which needs the feature `linalg`.
//!
//! The last two axes of a tensor are the axes of a matrix. The axes before them are batch axes: each function computes a
//! result for each matrix.
//!
//! The operations are written with the public traits of [`pytree_transform::extend`], as those of any other crate.

mod determinants;
mod factors;
mod kernels;
mod primitives;
mod systems;

pub use crate::determinants::{det, slogdet, try_det, try_slogdet};
pub use crate::factors::{cholesky, eigh, qr, svd, try_cholesky, try_eigh, try_qr, try_svd};
pub use crate::systems::{
    LeastSquares, Triangular, cho_solve, inv, lstsq, solve, triangular_solve, try_cho_solve,
    try_inv, try_lstsq, try_solve, try_triangular_solve,
};
