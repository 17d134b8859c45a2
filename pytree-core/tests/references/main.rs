//! Mutable references, weak edges and cycles; what crosses the border of a transformation.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::type_complexity,
    missing_docs,
    unreachable_pub,
    reason = "a failed unwrap is a failed test, and says where"
)]

mod cells;
mod crossing;
mod cycles;
mod levels;
mod states;
mod threads;
