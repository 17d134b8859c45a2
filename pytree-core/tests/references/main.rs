//! Mutable references, weak edges and cycles; what crosses the border of a transformation.
//!
//! With `pytree-transform/tests/{references,aliasing}.rs` and `tests/seeds/refx.rs` this covers what refx shows in its own
//! tests: one value behind several handles; counted once in a graph and at each place in a tree; taken apart and put
//! together through `jit`, traced again only for another pattern; not written from another trace level, during or after;
//! only some kinds mutable for a while; values written back from a part; copies. What it shows of descriptors, a
//! field that is not set or set to another reference, the types of fields rule out.

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
mod instants;
mod levels;
mod states;
mod threads;
