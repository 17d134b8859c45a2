//! The programs of the documents that this library grew from, in our words, and what they print.
//!
//! A program that prints in Python what it prints here is compared line by line. Where our words differ by
//! design, the test says how: a derived type's treedef shows the type's fields by name, as in
//! `PyTreeDef(Counter { count: *, bias: * })`, and booleans print as Rust's.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod flarejax;
mod jax;
mod nnx;
#[path = "../../examples/nnx_tour.rs"]
#[allow(dead_code, reason = "the example prints what the tests compare")]
mod nnx_tour;
mod pax;
mod printed;
mod refx;
#[path = "../../examples/shared.rs"]
#[allow(dead_code, reason = "the example prints what the tests compare")]
mod shared;
mod treedefs;
