//! Elements of arrays as bytes: their order in memory and the order of their bytes.

pub(crate) mod bytes;
pub(crate) mod scatter;
