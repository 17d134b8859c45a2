//! The differences between two structures.

use super::{Fit, TreeDef};
use crate::base::error::Difference;

impl TreeDef {
    /// Returns every difference between this structure and `other`, from the root down.
    ///
    /// Two nodes are compared by type, then by number of children or keys, then by static values. If all these are
    /// equal, the children of the two nodes are compared.
    pub fn differences(&self, other: &Self) -> Vec<Difference> {
        if self == other {
            return Vec::new();
        }
        self.misfits(other, Fit::Equal)
    }
}
