//! Calls with extreme arguments. Each returns the right result, or panics at the caller's line with a message that
//! names the called function. No call may return a wrong result or panic with a message of the standard library.

#![allow(
    clippy::float_cmp,
    clippy::reversed_empty_ranges,
    clippy::useless_vec,
    reason = "exact results of odd arguments are what is tested"
)]

mod harness;
mod numbers;
mod positions;
mod sizes;
mod windows;
