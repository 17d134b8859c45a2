//! Data for training: batches of examples in an order that depends only on a key and the index of the epoch; and
//! files of arrays and tables.
//!
//! A dataset is any pytree of tensors whose first axes have the same length, or a [`Source`] that gives one example at
//! a time. [`Batches`] divides a dataset into batches. All orders are functions of a key and an epoch, so a
//! [`Position`] of a few numbers is all that a checkpoint needs to continue in the middle of an epoch.

mod batches;
pub mod csv;
mod error;
pub mod idx;
pub mod npy;
#[cfg(feature = "npz")]
pub mod npz;
mod order;
mod position;
mod prefetch;
mod source;

pub use batches::{Batches, BatchesOf, LastBatch};
pub use error::{DataError, SourceError};
pub use position::Position;
pub use source::{Arrays, Batch, Examples, Padded, Source, examples};
