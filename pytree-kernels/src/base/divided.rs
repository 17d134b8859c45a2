//! Evaluations that several threads share.

use smallvec::SmallVec;

use crate::base::array::Array;
use crate::base::threads::Piece;

/// The results of an evaluation.
pub type Results = SmallVec<[Array; 1]>;

/// An evaluation that is divided into pieces. Threads do the pieces in any order.
pub trait Divided: Send {
    /// Adds the pieces of the evaluation to `pieces`: about `count` of them.
    fn pieces<'a>(&'a mut self, count: usize, pieces: &mut Vec<Piece<'a>>);

    /// Returns the results, after all pieces are done.
    fn results(self: Box<Self>) -> Results;
}
