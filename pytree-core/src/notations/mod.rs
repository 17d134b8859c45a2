//! The notations of other libraries: the states of NNX, the dictionary of `FlareJax`, the references of the Python
//! library `refx`.

pub(crate) mod dictionary;
pub mod refs;
pub mod state;
