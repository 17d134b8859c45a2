//! The facts and helpers that all crates of pytree share.
//!
//! - [`dtype`] is the table of dtypes.
//! - [`conversions!`], [`dereferences!`] and [`debug_as_display!`] implement traits of the standard library.
//! - [`named!`] declares an enum with the names of its variants.
//! - [`platform`] is the output and the clock of the program.
//! - [`span!`] is spans of `tracing`.
//! - [`lists`] displays lists.
//! - [`bug`] reports bugs of the library itself.
//! - [`suggest`] finds the name that a misspelt name most likely means.
//!
//! Without features, this crate has no dependencies, because the derive macros depend on it, and all other crates wait for the macros.

pub mod bug;
pub mod dtype;
#[doc(hidden)]
pub mod events;
mod implementations;
pub mod lists;
pub mod platform;
#[cfg(feature = "serde")]
#[doc(hidden)]
pub mod serde_text;
pub mod suggest;
