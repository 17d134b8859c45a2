//! Batches that another thread prepares while the consumer computes.

use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use crate::data::source::running_example;
use crate::data::{DataError, Source};

/// The batches of an epoch that are still to be read.
pub(super) struct Plan<S> {
    pub(super) source: Arc<S>,
    /// The positions of the examples of the whole epoch.
    pub(super) order: Arc<[usize]>,
    pub(super) size: usize,
    /// The indices of the remaining batches.
    pub(super) batches: Range<usize>,
}

impl<S: Source> Iterator for Plan<S> {
    type Item = Result<S::Example, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        let first = self.batches.next()? * self.size;
        let end = (first + self.size).min(self.order.len());
        Some(self.source.batch(&self.order[first..end]))
    }
}

/// Where the batches of an iterator come from.
pub(super) enum Supply<S: Source> {
    /// The consumer reads each batch itself.
    Direct(Plan<S>),
    /// A thread reads the batches. It ends after the last batch, after an error, or when the receiver is dropped.
    Thread(Receiver<Result<S::Example, DataError>>),
}

impl<S: Source> Supply<S> {
    /// Starts a thread that prepares up to `ahead` batches. Without threads, as on wasm, the consumer reads the batches.
    pub(super) fn new(plan: Plan<S>, ahead: usize) -> Self {
        let Some(queued) = ahead.checked_sub(1) else {
            return Self::Direct(plan);
        };
        // A queue of length `ahead - 1`, and one batch that the thread holds until there is room.
        let (sender, receiver) = sync_channel(queued);
        let copy = Plan {
            source: Arc::clone(&plan.source),
            order: Arc::clone(&plan.order),
            size: plan.size,
            batches: plan.batches.clone(),
        };
        let work = move || {
            let mut plan = plan;
            loop {
                // An unwinding source is not used again.
                let batch = catch_unwind(AssertUnwindSafe(|| plan.next()));
                let batch = batch.unwrap_or_else(|payload| {
                    let example = running_example();
                    Some(Err(DataError::Panicked {
                        what: example.map_or_else(String::new, |at| format!("example {at}")),
                        message: message(&*payload),
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
        match thread::Builder::new().name(name).spawn(work) {
            Ok(_) => Self::Thread(receiver),
            Err(_) => Self::Direct(copy),
        }
    }

    pub(super) fn next(&mut self) -> Option<Result<S::Example, DataError>> {
        match self {
            Self::Direct(plan) => plan.next(),
            Self::Thread(receiver) => receiver.recv().ok(),
        }
    }
}

/// Returns the text of a panic.
fn message(payload: &(dyn Any + Send)) -> String {
    payload
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| payload.downcast_ref::<&str>().map(|&text| text.to_owned()))
        .unwrap_or_else(|| "the payload of the panic is not a text".to_owned())
}
