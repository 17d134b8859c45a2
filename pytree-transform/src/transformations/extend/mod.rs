//! Operations that other crates add: with rules of their own they stand beside those of the library.
//!
//! The engine has a trait of its own for the rules of a primitive, with arrays in place of tensors and with hooks for fusion,
//! meshes and recorded functions. [`Primitive`] is the face that outsiders implement, and does not change when the engine
//! does.

pub(crate) mod functions;
mod opened;
pub(crate) mod primitive;
mod rule;
