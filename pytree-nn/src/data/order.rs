//! The order of the examples in an epoch.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::data::DataError;
use crate::random::Key;

/// A function that maps the index of an epoch to the positions of the epoch's examples.
type Positions = dyn Fn(usize) -> Vec<usize> + Send + Sync;

/// How the examples of an epoch are ordered.
#[derive(Clone)]
pub(super) enum Order {
    /// As in the dataset.
    Sequential,
    /// Shuffled with a key and the index of the epoch.
    Shuffled(Key, LastOrder),
    /// In the order that the user's function returns.
    Custom(Arc<Positions>),
}

/// The last computed order with its epoch. A loop that resumes at each batch needs the order of one epoch many times, and
/// shuffling takes much longer than reading a batch.
pub(super) type LastOrder = Arc<Mutex<Option<(usize, Arc<[usize]>)>>>;

impl Order {
    /// Returns the order that is shuffled with a key.
    pub(super) fn shuffled(key: &Key) -> Self {
        Self::Shuffled(key.clone(), LastOrder::default())
    }

    /// Returns the positions of the examples of an epoch.
    pub(super) fn positions(&self, epoch: usize, count: usize) -> Result<Arc<[usize]>, DataError> {
        match self {
            Self::Sequential => Ok((0..count).collect()),
            Self::Shuffled(key, last) => {
                let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some((_, order)) = last.as_ref().filter(|(known, _)| *known == epoch) {
                    return Ok(Arc::clone(order));
                }
                #[allow(
                    clippy::cast_possible_truncation,
                    reason = "as in JAX, a key takes the lower 32 bits of an integer"
                )]
                let order = key.fold_in(epoch as u32).permutation(count);
                let positions = order.try_to_vec::<i32>()?.into_iter();
                let positions = positions.map(|position| usize::try_from(position).unwrap_or(0));
                let order: Arc<[usize]> = positions.collect();
                *last = Some((epoch, Arc::clone(&order)));
                Ok(order)
            }
            Self::Custom(function) => checked(epoch, count, function(epoch)).map(Arc::from),
        }
    }
}

/// Checks the positions that the function of the user returned.
fn checked(epoch: usize, count: usize, positions: Vec<usize>) -> Result<Vec<usize>, DataError> {
    let outside = positions.iter().position(|&position| position >= count);
    let problem = match outside {
        _ if positions.len() != count => format!("{} positions", positions.len()),
        Some(place) => format!("{} at place {place}", positions[place]),
        None => return Ok(positions),
    };
    Err(DataError::Order {
        epoch,
        examples: count,
        problem,
    })
}

impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sequential => f.write_str("Sequential"),
            Self::Shuffled(key, _) => f.debug_tuple("Shuffled").field(key).finish(),
            Self::Custom(_) => f.write_str("Custom(..)"),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn order_of_epoch_is_shuffled_once() {
        let order = Order::shuffled(&Key::new(0));
        let of = |epoch| order.positions(epoch, 10).unwrap();
        let first = of(0);
        assert!(Arc::ptr_eq(&first, &of(0)));
        // A clone of the batches shares the order.
        assert!(Arc::ptr_eq(
            &first,
            &order.clone().positions(0, 10).unwrap()
        ));
        assert_ne!(first, of(1));
        assert_eq!(first, of(0));
    }
}
