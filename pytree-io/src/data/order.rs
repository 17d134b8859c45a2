//! The order of the examples in an epoch.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use pytree_transform::extend::check_memory;
use pytree_transform::{AbstractArray, DType};

use crate::data::error::DataError;
use crate::data::source::reserved;
use pytree_nn::Key;

/// The positions of the examples of an epoch.
#[derive(Clone)]
pub(super) enum Positions {
    /// All positions below a number. A source may have more examples than the memory has room for positions.
    All(usize),
    List(Arc<[usize]>),
}

impl Positions {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::All(count) => *count,
            Self::List(list) => list.len(),
        }
    }

    /// Returns the positions at some places of the epoch.
    pub(super) fn at(&self, places: Range<usize>) -> Result<Cow<'_, [usize]>, DataError> {
        match self {
            Self::All(_) => {
                let mut positions = reserved(places.len())?;
                positions.extend(places);
                Ok(Cow::Owned(positions))
            }
            Self::List(list) => Ok(Cow::Borrowed(&list[places])),
        }
    }
}

/// A function that maps the index of an epoch to the positions of the epoch's examples.
type Function = dyn Fn(usize) -> Vec<usize> + Send + Sync;

/// How the examples of an epoch are ordered.
#[derive(Clone)]
pub(super) enum Order {
    /// As in the dataset.
    Sequential,
    /// Shuffled with a key and the index of the epoch.
    Shuffled(Key, LastOrder),
    /// In the order that the user's function returns.
    Custom(Arc<Function>),
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
    pub(super) fn positions(&self, epoch: usize, count: usize) -> Result<Positions, DataError> {
        match self {
            Self::Sequential => Ok(Positions::All(count)),
            Self::Shuffled(key, last) => {
                let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some((_, order)) = last.as_ref().filter(|(known, _)| *known == epoch) {
                    return Ok(Positions::List(Arc::clone(order)));
                }
                if i32::try_from(count).is_err() {
                    return Err(DataError::Shuffle { examples: count });
                }
                check_memory("shuffle", &AbstractArray::new(DType::I64, [count]))?;
                #[allow(
                    clippy::cast_possible_truncation,
                    reason = "as in JAX, a key takes the lower 32 bits of an integer"
                )]
                let order = key.fold_in(epoch as u32).permutation(count);
                let positions = order.try_to_vec::<i32>()?.into_iter();
                let positions = positions.map(|position| usize::try_from(position).unwrap_or(0));
                let order: Arc<[usize]> = positions.collect();
                *last = Some((epoch, Arc::clone(&order)));
                Ok(Positions::List(order))
            }
            Self::Custom(function) => {
                let list = checked(epoch, count, function(epoch))?;
                Ok(Positions::List(list.into()))
            }
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
        let list = |order: &Order, epoch| match order.positions(epoch, 10).unwrap() {
            Positions::List(list) => list,
            Positions::All(_) => panic!("a shuffled order is a list"),
        };
        let of = |epoch| list(&order, epoch);
        let first = of(0);
        assert!(Arc::ptr_eq(&first, &of(0)));
        // A clone of the batches shares the order.
        assert!(Arc::ptr_eq(&first, &list(&order.clone(), 0)));
        assert_ne!(first, of(1));
        assert_eq!(first, of(0));
    }
}
