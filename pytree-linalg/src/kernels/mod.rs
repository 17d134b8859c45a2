//! Kernels that compute on one matrix.
//!
//! Invariant: each matrix of finite numbers has factors within LAPACK's error bounds, or the documented NaN, and none makes
//! a kernel panic or loop for ever. `primitives/standing_tests.rs` has the matrices.

mod columns;
pub(crate) mod real;
pub(crate) mod reflections;
pub(crate) mod singular;
pub(crate) mod symmetric;
pub(crate) mod triangles;
