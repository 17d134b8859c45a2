//! Time grows with the number of equations or leaves, not with its square.
//!
//! Each operation is measured at 10⁵ equations or leaves and at 10⁴, in a process of its own. It may take at most 25 times
//! as long. The least time of some runs counts, and only the time that the thread itself runs, so that other programs on the
//! machine matter little.
//!
//! The test runs in release builds and by name, `cargo test --release -p pytree-tests --test scale`: debug builds have a
//! tenth of these sizes, where a schedule that looks 256 equations ahead is not yet linear. Everything runs on a thread with 2 MiB of
//! stack, so that a recursion along a chain of equations or tensors fails, too.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    reason = "a table of operations is read as a script"
)]

mod equations;
mod factorizations;
mod leaves;
mod measure;
mod memory;
mod models;
mod programs;
mod sharing;
