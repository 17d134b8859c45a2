//! The tests of the whole library as its users see it, in one program, so that it is linked once.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::type_complexity,
    missing_docs,
    unreachable_pub,
    reason = "a test says what it checks in its name, and fails by panicking"
)]

mod architecture;
mod devices;
mod documentation;
mod formats;
mod forms;
mod goldens;
mod laws;
mod models;
mod module_order;
mod panics;
mod processes;
mod programs;
mod seeds;
mod shards;
mod stablehlo;
mod threads;
