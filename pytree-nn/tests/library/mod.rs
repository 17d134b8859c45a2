//! Losses, metrics, random numbers, initializers and functions against figures of JAX, optax and scikit-learn.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod draws;
mod functions;
mod losses;
mod metrics;
