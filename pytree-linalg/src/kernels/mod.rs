//! Kernels that compute on one matrix.
//!
//! The crate `faer` solves triangular systems, and computes Cholesky factors, eigenvalues and singular values. LU and the
//! reflections of QR are kernels of this crate; their files say why. faer runs on the calling thread, so bits do not depend on
//! the number of threads.
//!
//! The orthogonal factorizations compute in f64 also for matrices of f32. So the squares of elements of f32 neither
//! overflow nor underflow, and the only error of a result of f32 is almost always its last rounding. For eigenvalues and singular
//! values, a matrix is first divided by a power of two, so that its elements are below 2.
//!
//! Invariant: each matrix of finite numbers has factors within LAPACK's error bounds, or the documented NaN, or the error
//! [`NotConverged`](spectra::NotConverged), and none makes a kernel panic or loop for ever. `primitives/tests/standing.rs` and
//! `primitives/tests/hard.rs` have the matrices.

mod columns;
pub(crate) mod memory;
pub(crate) mod real;
pub(crate) mod reflections;
pub(crate) mod spectra;
pub(crate) mod triangles;
