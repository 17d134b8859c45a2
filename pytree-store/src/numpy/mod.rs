//! The formats of NumPy: `.npy` files and `.npz` archives.

pub(crate) mod npy;
#[cfg(feature = "npz")]
pub(crate) mod npz;
