//! Calls with extreme arguments: each gives the right result, or panics at the caller's line with a message that names
//! the function called. None gives a wrong result, and none a message of the standard library.

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
