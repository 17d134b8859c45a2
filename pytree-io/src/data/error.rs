//! Errors of datasets, batches and positions.

use std::fmt::Write as _;

use pytree_core::{KeyPath, TreeError};
use pytree_transform::{AbstractArray, TensorError};
use thiserror::Error;

/// The error of a [`Source`](crate::data::Source): any error type that may be sent to another thread.
pub type SourceError = Box<dyn std::error::Error + Send + Sync>;

/// Batches cannot be made, or a batch cannot be read.
#[derive(Error)]
#[non_exhaustive]
pub enum DataError {
    /// The batch size is 0.
    #[error("cannot make batches: expected a batch size of at least 1, found 0")]
    BatchSize,
    /// The dataset has no example.
    #[error(
        "cannot make batches: the dataset has no examples{}; check the file or the filter that the examples come from",
        first_of(.leaves)
    )]
    NoExamples {
        /// The leaves of the dataset, with their paths. Empty for a [`Source`](crate::data::Source).
        leaves: Vec<(KeyPath, AbstractArray)>,
    },
    /// The dataset has no tensor.
    #[error(
        "cannot make batches: the dataset is a pytree without tensors; pass at least one tensor, whose first axis counts the examples"
    )]
    NoTensors,
    /// Some leaves have no axis, or their first axes have different lengths.
    #[error(
        "cannot make batches: expected leaves whose first axes have the same length, found{}\nthe first axis counts the examples: check that all leaves have the same examples",
        lengths(.leaves)
    )]
    Lengths {
        /// All leaves of the dataset, with their paths.
        leaves: Vec<(KeyPath, AbstractArray)>,
    },
    /// Without its last batch, an epoch would have no batch.
    #[error(
        "cannot drop the last batch: the dataset has {examples} examples and the batch size is {size}, so no batch would be left; use a batch size of at most {examples}, or keep or pad the last batch"
    )]
    NoBatch {
        /// The number of examples.
        examples: usize,
        /// The number of examples of a full batch.
        size: usize,
    },
    /// The user's order of the examples is invalid.
    #[error(
        "cannot order the examples of epoch {epoch}: expected {examples} positions from 0 to {}, found {problem}", .examples - 1
    )]
    Order {
        /// The index of the epoch, starting at 0.
        epoch: usize,
        /// The number of examples.
        examples: usize,
        /// The actual positions.
        problem: String,
    },
    /// The position was made for other batches, or is damaged.
    #[error("cannot resume the batches: expected {expected}, found {found} in the position; {fix}")]
    Position {
        /// What the batches have.
        expected: String,
        /// What the position has.
        found: String,
        /// How to get batches that match the position.
        fix: &'static str,
    },
    /// The source cannot give an example or a batch.
    #[error("cannot read {what}: {source}")]
    Source {
        /// The example or the batch.
        what: String,
        /// The error of the source.
        source: SourceError,
    },
    /// The structure, a shape or a dtype of an example differs from the first example of the batch.
    #[error(
        "cannot stack the examples {first} and {other}: expected {expected}, found {found} in example {other}; all examples need the same structure, shapes and dtypes"
    )]
    Examples {
        /// The position of the first example of the batch.
        first: usize,
        /// The position of the other example.
        other: usize,
        /// The structure or the leaf of the first example.
        expected: String,
        /// The structure or the leaf of the other example.
        found: String,
    },
    /// The thread that prepares batches panicked.
    #[error("the thread that prepares batches panicked while it read {what}: {message}")]
    Panicked {
        /// The example, if it is known, and the batch.
        what: String,
        /// The message of the panic.
        message: String,
    },
    /// The thread that prepares batches ended without a word.
    #[error(
        "cannot read {what}: the thread that prepares batches has ended; check that the source ends no threads, or read without `prefetch`"
    )]
    Ended {
        /// The batch.
        what: String,
    },
    /// A source has returned a batch with another number of examples than positions.
    #[error("cannot use {what}: expected {expected} examples along the first axis of each tensor, found {found} at {}; `Source::batch` returns one example for each position", .path.or_root())]
    Length {
        /// The batch.
        what: String,
        /// The number of positions that the source was asked for.
        expected: usize,
        /// The path of the tensor in the batch.
        path: KeyPath,
        /// The dtype and shape of the tensor.
        found: AbstractArray,
    },
    /// The number of examples of a source has changed.
    #[error(
        "cannot read the examples: the source had {expected} when the batches were made, and now has {found}; make new batches when the data change"
    )]
    Changed {
        /// The number when the batches were made.
        expected: usize,
        /// The number now.
        found: usize,
    },
    /// An order in memory cannot have so many positions.
    #[error(
        "cannot shuffle {examples} examples: expected at most {}; shuffle parts of them in the source, for instance the order of files",
        i32::MAX
    )]
    Shuffle {
        /// The number of examples.
        examples: usize,
    },
    /// A batch would be nearly all padding.
    #[error(
        "cannot pad {examples} examples to a batch of {size}: expected at most 2^24 examples of padding; use a smaller batch size"
    )]
    Padding {
        /// The batch size.
        size: usize,
        /// The number of examples.
        examples: usize,
    },
    /// The memory for the positions of a batch is not available.
    #[error(
        "cannot make a batch of {examples} examples: the memory for their positions is not available; use a smaller batch size"
    )]
    Memory {
        /// The number of examples of the batch.
        examples: usize,
    },
    /// A batch cannot be built.
    #[error("cannot make a batch: {0}")]
    Tree(#[from] TreeError),
    /// A tensor operation failed, for example because the key of the shuffling is traced.
    #[error("cannot make a batch: {0}")]
    Tensor(#[from] TensorError),
}

impl DataError {
    /// Adds the index of the batch and of its epoch to the error of a source.
    pub(super) fn in_batch(mut self, batch: usize, epoch: usize) -> Self {
        if let Self::Source { what, .. }
        | Self::Panicked { what, .. }
        | Self::Ended { what }
        | Self::Length { what, .. } = &mut self
        {
            let separator = if what.is_empty() { "" } else { " of " };
            // Writing to a `String` cannot fail.
            let _ = write!(what, "{separator}batch {batch} of epoch {epoch}");
        }
        self
    }
}

pytree_base::debug_as_display!(DataError);

fn first_of(leaves: &[(KeyPath, AbstractArray)]) -> String {
    leaves.first().map_or_else(String::new, |(path, info)| {
        format!(": {} is {info}", path.or_root())
    })
}

/// Returns a line for each leaf with its length, path and shape.
fn lengths(leaves: &[(KeyPath, AbstractArray)]) -> String {
    let line = |(path, info): &(KeyPath, AbstractArray)| {
        let length = info.shape.first().map_or_else(
            || "no first axis".to_owned(),
            |length| format!("length {length}"),
        );
        format!("\n  {}: {info}, {length}", path.or_root())
    };
    leaves.iter().map(line).collect()
}
