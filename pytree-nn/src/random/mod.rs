//! Random numbers: keys as in JAX, and named streams of keys as in Flax NNX.
//!
//! A key is a value: the same key always gives the same numbers, the same ones as JAX with its default
//! generator (threefry2x32, partitionable). Fresh numbers come from fresh keys, which are split off a key
//! or drawn from a stream of [`Rngs`].

mod distributions;
mod error_function;
mod key;
mod reseed;
mod rngs;
mod streams;

pub use key::Key;
pub use reseed::reseed;
pub use rngs::{RngError, RngStream, Rngs};
pub use streams::with_rngs;
