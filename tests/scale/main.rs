//! Time grows with the number of equations or leaves, not with its square.
//!
//! Each operation is measured at a number and at ten times as many; the second time may be at most 20 times the first,
//! which leaves room for caches that overflow. The numbers are 10⁴ and 10⁵ in release builds, in which `.ci/run` runs
//! this test, and a tenth of that in debug builds, which are so much slower. Everything runs on a thread with 2 MiB of
//! stack, so that a recursion over the equations of a chain or over its tensors fails, too.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    missing_docs,
    missing_debug_implementations,
    reason = "a table of operations is read as a script"
)]

mod equations;
mod leaves;
mod measure;
mod models;
mod programs;
mod sharing;
