//! Notations of other systems: the states of NNX, `FlareJax`'s dictionary, refx.

pub(crate) mod dictionary;
pub mod refs;
pub mod state;
