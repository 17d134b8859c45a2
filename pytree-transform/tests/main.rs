//! The tests of pytree-transform, in one program, so that it is linked once.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::type_complexity,
    missing_docs,
    unreachable_pub,
    reason = "a test says what it checks in its name, and fails by panicking"
)]

mod aliasing;
mod compositions;
mod conflicts;
mod control;
mod debugging;
mod effects;
mod environment;
mod extend;
mod extremes;
mod failures;
mod gradients;
mod host;
mod jit;
mod lending;
mod messages;
mod narrow;
mod operands;
#[path = "../../tests/panics.rs"]
mod panics;
mod ravel;
mod reductions;
mod reentrant;
mod references;
mod spmd;
mod vmap;
mod writing;
