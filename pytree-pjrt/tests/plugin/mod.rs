//! Runs programs with a plugin: results, donations, errors, the cache, and several threads.

#![allow(
    clippy::unwrap_used,
    reason = "a test says what it checks in its name, and fails by panicking"
)]

mod cache;
mod donation;
mod errors;
mod programs;
mod threads;
mod transfers;
