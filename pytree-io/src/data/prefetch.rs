//! Batches that another thread prepares while the consumer computes.

use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;

use pytree_base::bug::expect_some;
use pytree_core::tree;
use pytree_transform::Tensor;

use crate::data::error::DataError;
use crate::data::order::Positions;
use crate::data::source::Source;
use crate::data::source::running_example;

/// The batches of an epoch that are still to be read.
pub(super) struct Plan<S> {
    pub(super) source: Arc<S>,
    /// The positions of the examples of the whole epoch.
    pub(super) order: Positions,
    pub(super) size: usize,
    /// Whether each batch has `size` examples, also the last one.
    pub(super) is_padded: bool,
    /// The indices of the remaining batches.
    pub(super) batches: Range<usize>,
}

impl<S: Source> Iterator for Plan<S> {
    type Item = Result<S::Example, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        let first = self.batches.next()? * self.size;
        let end = first.saturating_add(self.size).min(self.order.len());
        Some(self.batch(first..end))
    }
}

impl<S: Source> Plan<S> {
    /// Reads the examples at some places of the epoch, and checks that the source still is what it says.
    fn batch(&self, places: Range<usize>) -> Result<S::Example, DataError> {
        let (expected, found) = (self.order.len(), self.source.count());
        if expected != found {
            return Err(DataError::Changed { expected, found });
        }
        let expected = if self.is_padded {
            self.size
        } else {
            places.len()
        };
        let batch = self.source.batch(&self.order.at(places)?)?;
        let (leaves, treedef) = tree::try_flatten::<Tensor, S::Example>(&batch)?;
        let is_other = |leaf: &Tensor| leaf.shape().first() != Some(&expected);
        match leaves.iter().position(is_other) {
            None => Ok(batch),
            Some(leaf) => Err(DataError::Length {
                what: String::new(),
                expected,
                path: treedef.leaf_paths().swap_remove(leaf),
                found: leaves[leaf].info().clone(),
            }),
        }
    }
}

/// The maximum number of batches that a thread prepares. The queue has memory for all of them from the start.
const MOST: usize = 1 << 12;

/// A batch without its type, so that the queue and the thread are compiled once.
type Prepared = Result<Box<dyn Any + Send>, DataError>;

/// Where the batches of an iterator come from.
pub(super) enum Supply<S: Source> {
    /// The consumer reads each batch itself.
    Direct(Plan<S>),
    /// A thread reads the batches. It ends after the last batch, after an error, or when the iterator is dropped.
    Thread(Box<dyn Iterator<Item = Prepared> + Send>),
}

impl<S: Source> Supply<S> {
    /// Starts a thread that prepares up to `ahead` batches. Without threads, as on wasm, the consumer reads the batches.
    pub(super) fn new(plan: Plan<S>, ahead: usize) -> Self {
        let ahead = ahead.min(plan.batches.len()).min(MOST);
        // A queue of length `ahead - 1`, and one batch that the thread holds until there is room.
        let Some(queued) = ahead.checked_sub(1) else {
            return Self::Direct(plan);
        };
        let mut copy = Plan {
            source: Arc::clone(&plan.source),
            order: plan.order.clone(),
            batches: plan.batches.clone(),
            ..plan
        };
        let next = move || {
            Some(
                copy.next()?
                    .map(|batch| -> Box<dyn Any + Send> { Box::new(batch) }),
            )
        };
        started(Box::new(next), queued).map_or(Self::Direct(plan), Self::Thread)
    }

    /// Returns the next batch of those that are still to be read.
    pub(super) fn next(&mut self) -> Result<S::Example, DataError> {
        let next = match self {
            Self::Direct(plan) => plan.next(),
            Self::Thread(batches) => batches.next().map(|batch| {
                let batch = batch?.downcast().ok();
                Ok(*expect_some(batch, "a batch of the source"))
            }),
        };
        next.unwrap_or_else(|| {
            Err(DataError::Ended {
                what: String::new(),
            })
        })
    }
}

/// Starts a thread that reads batches by `next` until there is none. Returns `None` if there are no threads.
fn started(
    mut next: Box<dyn FnMut() -> Option<Prepared> + Send>,
    queued: usize,
) -> Option<Box<dyn Iterator<Item = Prepared> + Send>> {
    let (sender, receiver) = sync_channel(queued);
    let work = move || {
        loop {
            // An unwinding source is not used again.
            let batch = catch_unwind(AssertUnwindSafe(&mut next));
            let batch = batch.unwrap_or_else(|payload| {
                let example = running_example();
                let message = message(&*payload);
                // The destructor of a payload may panic, too. Then this thread would end without a message.
                std::mem::forget(payload);
                Some(Err(DataError::Panicked {
                    what: example.map_or_else(String::new, |at| format!("example {at}")),
                    message,
                }))
            });
            let Some(batch) = batch else { return };
            let failed = batch.is_err();
            // Sending fails if the consumer has dropped the receiver.
            if sender.send(batch).is_err() || failed {
                return;
            }
        }
    };
    let name = "pytree-prefetch".to_owned();
    thread::Builder::new().name(name).spawn(work).ok()?;
    Some(Box::new(receiver.into_iter()))
}

/// Returns the text of a panic.
fn message(payload: &(dyn Any + Send)) -> String {
    payload
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| payload.downcast_ref::<&str>().map(|&text| text.to_owned()))
        .unwrap_or_else(|| "the payload of the panic is not a text".to_owned())
}
