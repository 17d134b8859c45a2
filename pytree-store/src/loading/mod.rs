//! Reads checkpoints: finds where a file has each leaf of a template, and reads the elements to their places.

pub(crate) mod arrays;
pub(crate) mod blank;
pub(crate) mod entries;
pub(crate) mod layout;
pub(crate) mod load;
pub(crate) mod location;
pub(crate) mod matching;
#[cfg(feature = "ndarray")]
pub(crate) mod ndarrays;
pub(crate) mod options;
pub(crate) mod reading;
pub(crate) mod source;
