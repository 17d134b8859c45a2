//! How a kernel finds the elements of a value in an input.

/// How the elements of a view are found in its source, the value that the view reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pattern {
    /// The same elements in the same order.
    Same,
    /// A single element, repeated for all elements of the view.
    Scalar,
    /// A repeated row: element `i` of the view is element `i % period` of the source.
    Cycle {
        /// The length of the row.
        period: usize,
    },
    /// A repeated column: element `i` of the view is element `i / times` of the source.
    Stretch {
        /// How often each element is repeated.
        times: usize,
    },
}
