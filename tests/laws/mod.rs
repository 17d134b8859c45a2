//! Laws of every tree, filter and program, tested on random ones.
//!
//! The cases are the same in every run. `PROPTEST_RNG_SEED` and `PROPTEST_CASES` select others.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::type_complexity,
    clippy::redundant_closure,
    clippy::collapsible_if,
    missing_docs,
    unreachable_pub,
    reason = "a test says what it checks in its name, and fails by panicking"
)]

mod close;
mod dynamic;
mod equality;
mod features;
mod graphs;
mod interpreter;
mod large;
mod loops;
mod narrow;
mod nesting;
mod parts;
mod passes;
mod paths;
mod products;
mod programs;
mod random_programs;
mod sharing;
mod small_loops;
mod states;
mod steps;
mod structures;
mod transformations;
mod trees;
mod typed;

use proptest::test_runner::{Config, RngSeed};

/// How a law is tested: on this many cases, and nothing is written beside the sources.
fn cases(count: u32) -> Config {
    let default = Config::default();
    let rng_seed = match default.rng_seed {
        RngSeed::Random => RngSeed::Fixed(0),
        given => given,
    };
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() {
        default.cases
    } else {
        count
    };
    Config {
        cases,
        rng_seed,
        failure_persistence: None,
        ..default
    }
}
