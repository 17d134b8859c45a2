//! Figures from JAX, Flax and optax; `tests/golden/README.md` says how they were made.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::type_complexity,
    missing_docs,
    unreachable_pub,
    reason = "a test says what it checks in its name, and fails by panicking"
)]

mod accuracy;
mod attention;
mod cases;
mod collectives;
mod compositions;
mod control;
mod convolution;
mod coverage;
mod derivatives;
mod display;
mod elementwise;
pub(crate) mod files;
pub(crate) mod formula;
mod jaxprs;
mod kinds;
mod layers;
mod linalg;
mod model_layers;
mod models;
mod narrow;
mod operations;
mod pretrained;
mod recurrent;
mod rows;
mod special_points;
mod state;
mod structural;
pub(crate) mod tolerance;
mod workloads;
