//! What prints or mimics another system's notation: the states of NNX, `FlareJax`'s dictionary, refx.

pub(crate) mod dictionary;
pub mod refs;
pub mod state;
