//! What pytree reads and writes: checkpoints, data, records of training runs, and exported programs.
//!
//! - [`checkpoint`] saves and loads the leaves of any pytree, also with the names and layouts of PyTorch and Flax.
//! - [`data`] divides a dataset into batches, and reads files of arrays and tables.
//! - [`training`] records a run: progress, metrics, early stopping, and pictures of learning curves.
//! - [`export`] writes programs in StableHLO to files.
//! - [`files`] writes any file atomically.

pub mod checkpoint;
pub mod data;
pub mod export;
pub mod training;

pub use pytree_store::files;
