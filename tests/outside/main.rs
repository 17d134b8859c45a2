//! A stranger's library: what other crates may add, built with public items of `pytree` only.
//!
//! Each file adds one thing and tests it alone under the transformations. `training` uses all of them in one model.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    reason = "a test says what it checks in its name, and fails by panicking"
)]

mod array;
mod container;
mod engine;
mod generic_layers;
mod layer;
mod layer_library;
mod leaf;
mod operation;
mod optimizer;
mod processes;
mod source;
mod training;
