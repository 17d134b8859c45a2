//! The order of the examples in an epoch.

use std::fmt;
use std::sync::Arc;

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
    Shuffled(Key),
    /// In the order that the user's function returns.
    Custom(Arc<Positions>),
}

impl Order {
    /// Returns the positions of the examples of an epoch.
    pub(super) fn positions(&self, epoch: usize, count: usize) -> Result<Vec<usize>, DataError> {
        match self {
            Self::Sequential => Ok((0..count).collect()),
            Self::Shuffled(key) => {
                #[allow(
                    clippy::cast_possible_truncation,
                    reason = "as in JAX, a key takes the lower 32 bits of an integer"
                )]
                let order = key.fold_in(epoch as u32).permutation(count);
                let positions = order.try_to_vec::<i32>()?.into_iter();
                Ok(positions
                    .map(|position| usize::try_from(position).unwrap_or(0))
                    .collect())
            }
            Self::Custom(function) => checked(epoch, count, function(epoch)),
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
            Self::Shuffled(key) => f.debug_tuple("Shuffled").field(key).finish(),
            Self::Custom(_) => f.write_str("Custom(..)"),
        }
    }
}
