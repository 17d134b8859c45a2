//! The base of all other modules: paths, kinds, identities and errors.

pub mod error;
pub mod half_text;
pub(crate) mod identity;
pub mod kind;
pub(crate) mod leaf_types;
pub mod path;
pub mod per_thread;
#[cfg(feature = "serde")]
mod serde_forms;
#[cfg_attr(shuttle, path = "../../../tools/interleavings/sync.rs")]
pub(crate) mod sync;
pub(crate) mod text;
