//! The processes that write one checkpoint together.

use std::fmt;

use pytree_transform::{Tensor, Tiling, all_gather, axis_index, axis_size};

/// A function that sends a number to all processes, and returns the numbers of all processes in the order of the ranks.
type Exchange<'p> = Box<dyn Fn(i64) -> Vec<i64> + 'p>;

/// The processes that write one checkpoint together, for [`save_sharded_with`](super::save_sharded_with). Each process writes
/// the parts that its devices hold to a file of its own. After all files are complete, the process of rank 0 writes the
/// index.
///
/// # Examples
/// In a program that runs in several processes, inside of `processes.along("data", …)`:
/// ```ignore
/// checkpoint::save_sharded_with("run/last", &model, &SaveOptions::new(), &Writers::along("data"))?;
/// ```
pub struct Writers<'p> {
    rank: usize,
    count: usize,
    exchange: Exchange<'p>,
}

impl<'p> Writers<'p> {
    /// Returns a single process, which writes everything.
    #[must_use]
    pub fn alone() -> Self {
        Self::new(0, 1, |number| vec![number])
    }

    /// Returns the processes of a named axis, which [`with_communicator`](pytree_transform::processes::with_communicator) has
    /// bound.
    ///
    /// # Panics
    /// Panics if no axis has this name.
    #[must_use]
    pub fn along(axis: &'p str) -> Self {
        let rank = axis_index(axis).item::<i32>();
        let gathered = move |number: i64| {
            all_gather(&Tensor::from(number), axis, 0, Tiling::Stacked).to_vec::<i64>()
        };
        Self::new(rank.unsigned_abs() as usize, axis_size(axis), gathered)
    }

    /// Returns `count` processes, of which this one has the given rank. `exchange` sends a number to all processes, and
    /// returns the numbers of all processes in the order of the ranks. All processes call it equally often.
    ///
    /// # Panics
    /// Panics if `rank` is not less than `count`.
    #[must_use]
    pub fn new(rank: usize, count: usize, exchange: impl Fn(i64) -> Vec<i64> + 'p) -> Self {
        assert!(
            rank < count,
            "`Writers::new` expects a rank that is less than the number of processes, found rank {rank} of {count} processes"
        );
        Self {
            rank,
            count,
            exchange: Box::new(exchange),
        }
    }

    pub(in crate::checkpoint) fn rank(&self) -> usize {
        self.rank
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Returns the number that the process of rank 0 passes.
    pub(super) fn of_first(&self, number: i64) -> i64 {
        self.all(number)[0]
    }

    /// Waits for all processes. Returns the first rank that passes false, if there is one.
    pub(super) fn first_failed(&self, is_done: bool) -> Option<usize> {
        let all = self.all(i64::from(is_done));
        all.iter().position(|&is_done| is_done == 0)
    }

    fn all(&self, number: i64) -> Vec<i64> {
        let all = (self.exchange)(number);
        let (found, expected) = (all.len(), self.count);
        assert!(
            found == expected,
            "the function of `Writers::new` must return a number for each of the {expected} processes, but returned {found}"
        );
        all
    }
}

impl fmt::Debug for Writers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rank, count) = (self.rank, self.count);
        write!(f, "Writers(rank {rank} of {count})")
    }
}
