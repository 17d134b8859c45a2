//! The tables for users of JAX and PyTorch: what they say of a name holds.

mod jax;
mod torch;
