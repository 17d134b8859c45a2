//! Whether smaller or larger values of a metric are better.

use pytree_core::Static;

/// Whether smaller or larger values of a metric are better.
///
/// There is no default: a loss and an accuracy have different goals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Static)]
pub enum Goal {
    /// Smaller values are better, as for a loss.
    Minimize,
    /// Larger values are better, as for an accuracy.
    Maximize,
}

impl Goal {
    /// Returns the value that every other value improves.
    pub fn worst(self) -> f64 {
        match self {
            Self::Minimize => f64::INFINITY,
            Self::Maximize => f64::NEG_INFINITY,
        }
    }

    /// Returns by how much a value is better than another. The result is negative if it is worse.
    pub fn gain(self, value: f64, over: f64) -> f64 {
        match self {
            Self::Minimize => over - value,
            Self::Maximize => value - over,
        }
    }

    /// Returns whether a value is better than another. NaN is neither better nor worse.
    pub fn is_better(self, value: f64, than: f64) -> bool {
        match self {
            Self::Minimize => value < than,
            Self::Maximize => value > than,
        }
    }
}
