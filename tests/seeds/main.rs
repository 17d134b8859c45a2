//! The programs of the documents that this library grew from, in our words, and what they print.
//!
//! A program that prints in Python what it prints here is compared line by line. Where our words differ by
//! design, the test says how: a derived type's treedef shows the type's fields by name, as in
//! `PyTreeDef(Counter { count: *, bias: * })`, and booleans print as Rust's.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod flarejax;
mod jax;
mod nnx;
mod pax;
mod printed;
mod refx;
mod treedefs;
