//! Random numbers: keys as in JAX, and named streams of keys as in Flax NNX.
//!
//! A key is a value: the same key always gives the same numbers. The numbers are the same as from the default generator
//! of JAX (threefry2x32, partitionable). To get new numbers, use a new key: split a key, or draw a key from a stream of
//! [`Rngs`].
//!
//! An argument that its distribution does not have, such as a negative rate, is an error where its value is known:
//! outside of transformations, and for Rust numbers everywhere. In a compiled function the value of a tensor is not known;
//! each method says what it returns then.

mod arguments;
mod choices;
mod distributions;
mod error_function;
mod integers;
mod key;
mod positive;
mod reseed;
mod rngs;
mod simple;
mod streams;
mod vectors;

pub use self::{choices::*, key::*, reseed::*, rngs::*, streams::*};
