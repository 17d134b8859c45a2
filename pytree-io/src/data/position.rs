//! The position of a training loop in its data.

use pytree_core::Module;
use pytree_transform::Tensor;

use crate::data::error::DataError;
use pytree_nn::Key;

/// The next batch of a training loop: the index of an epoch, and the index of the batch in this epoch.
///
/// [`Batches::start`](crate::data::Batches::start) returns the first position, and
/// [`Batches::resume`](crate::data::Batches::resume) gives with each batch the position after this batch. A position is
/// a pytree of states, so a checkpoint stores it beside the model. A position also has everything that determines the
/// order of the examples: the number of examples, the batch size, and the key of the shuffling. So a run that resumes
/// with other data or options gets an error, and not other batches.
#[derive(Module, Clone, Debug, PartialEq)]
pub struct Position {
    #[state("i64[]")]
    epoch: Tensor,
    #[state("i64[]")]
    batch: Tensor,
    #[state("i64[]")]
    examples: Tensor,
    #[state("i64[]")]
    size: Tensor,
    #[state]
    key: Option<Key>,
}

impl Position {
    pub(super) fn new(examples: usize, size: usize, key: Option<Key>) -> Self {
        Self {
            epoch: integer(0),
            batch: integer(0),
            examples: integer(examples),
            size: integer(size),
            key,
        }
    }

    /// Returns the index of the epoch that the next batch belongs to, starting at 0. The index is also the number of
    /// completed epochs.
    ///
    /// # Panics
    /// If the position is traced, for example as an argument of a compiled function, or if the index is negative.
    #[track_caller]
    pub fn epoch(&self) -> usize {
        count(&self.epoch)
    }

    /// Returns the index of the next batch in its epoch, starting at 0.
    ///
    /// # Panics
    /// If the position is traced, for example as an argument of a compiled function, or if the index is negative.
    #[track_caller]
    pub fn batch(&self) -> usize {
        count(&self.batch)
    }

    /// Returns the position after the batch `batch` of the epoch `epoch`.
    pub(super) fn behind(&self, epoch: usize, batch: usize, per_epoch: usize) -> Self {
        let (epoch, batch) = match batch + 1 {
            next if next >= per_epoch => (epoch + 1, 0),
            next => (epoch, next),
        };
        Self {
            epoch: integer(epoch),
            batch: integer(batch),
            ..self.clone()
        }
    }

    /// Returns the epoch and the batch, after checking that the position fits batches whose first position is `start`.
    pub(super) fn checked(
        &self,
        start: &Self,
        per_epoch: usize,
    ) -> Result<(usize, usize), DataError> {
        let numbers = [
            (&self.examples, &start.examples, "examples"),
            (&self.size, &start.size, "examples in a batch"),
        ];
        for (found, expected, what) in numbers {
            let (found, expected) = (found.try_item::<i64>()?, expected.try_item::<i64>()?);
            if found != expected {
                return Err(DataError::Position {
                    expected: format!("{expected} {what}"),
                    found: found.to_string(),
                    fix: "resume with the data and the batch size of the interrupted run, or begin with `start()`",
                });
            }
        }
        if self.key != start.key {
            return Err(DataError::Position {
                expected: described(start.key.as_ref())?,
                found: described(self.key.as_ref())?,
                fix: "pass the key of the interrupted run to `shuffle`, or begin with `start()`",
            });
        }
        let (epoch, batch) = (self.epoch.try_item::<i64>()?, self.batch.try_item::<i64>()?);
        match (usize::try_from(epoch), usize::try_from(batch)) {
            (Ok(epoch), Ok(batch)) if batch < per_epoch => Ok((epoch, batch)),
            _ => Err(DataError::Position {
                expected: format!("a batch from 0 to {}", per_epoch - 1),
                found: format!("batch {batch} of epoch {epoch}"),
                fix: "keep, drop or pad the last batch as in the interrupted run, or begin with `start()`",
            }),
        }
    }
}

fn described(key: Option<&Key>) -> Result<String, DataError> {
    Ok(match key {
        None => "no shuffling".to_owned(),
        Some(key) => format!(
            "shuffling with the key {:?}",
            key.data().try_to_vec::<u32>()?
        ),
    })
}

fn integer(number: usize) -> Tensor {
    Tensor::scalar(i64::try_from(number).unwrap_or(i64::MAX))
}

#[track_caller]
fn count(number: &Tensor) -> usize {
    let number = number.item::<i64>();
    usize::try_from(number).unwrap_or_else(|_| {
        panic!("cannot read the position: expected a number of at least 0, found {number}; the checkpoint is damaged")
    })
}
