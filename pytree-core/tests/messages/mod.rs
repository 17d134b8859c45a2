//! What errors say, and what is written as a tree.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    clippy::type_complexity,
    missing_docs,
    unreachable_pub,
    reason = "a test crate: a failed unwrap is a failed test, and says where"
)]

mod filters;
mod leaves;
mod places;
mod types;
mod written;
