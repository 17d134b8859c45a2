//! Mutable references, weak edges and cycles, and what crosses the boundary of a transformation.
//!
//! Together with `pytree-transform/tests/{references,aliasing}.rs` and `tests/seeds/refx.rs`, this covers the cases of refx's
//! own tests: a value behind several handles; a value counted once in a graph and at each place in a tree; sharing kept by
//! `jit`, with a retrace only for another pattern; no writes from another trace level; mutability limited to some kinds for a
//! while; values written back from a part; copies. The types of fields make refx's cases of descriptors impossible, such as a
//! field that is not set.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::type_complexity,
    missing_docs,
    unreachable_pub,
    reason = "a failed unwrap is a failed test, and says where"
)]

mod boundary;
mod cells;
mod cycles;
mod equality;
mod instants;
mod levels;
mod states;
mod threads;
