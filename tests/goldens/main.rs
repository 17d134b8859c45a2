//! Figures from JAX, Flax and optax; `tests/golden/README.md` says how they were made.

mod compositions;
mod files;
mod models;
mod operations;
mod tolerance;
