//! What a product transposes before it multiplies.

use super::loops::Loops;

/// What is transposed in memory, so that the kernels read contiguous elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrangement {
    /// Nothing: the kernels read both operands as they are.
    AsStored,
    /// The right operand, before the product.
    Turned,
    /// The result of the product of the transposed operands. In this product, the left operand is the right factor.
    Transposed,
}

impl Loops {
    pub(super) fn arrangement(&self, is_half: bool) -> Arrangement {
        let Self {
            rows,
            columns,
            depth,
            ..
        } = *self;
        if is_half || !self.is_turned() {
            return Arrangement::AsStored;
        }
        let turned = columns.length * depth.length;
        let other_way = rows.length * (depth.length + columns.length);
        let is_whole = self.outer.is_empty() && rows.result == columns.length && depth.left == 1;
        if is_whole && 3 * other_way < 2 * turned {
            Arrangement::Transposed
        } else {
            Arrangement::Turned
        }
    }

    /// Returns the loops after the right operand is transposed in memory.
    pub(super) fn turned(&self) -> Self {
        let mut loops = self.clone();
        (loops.columns.right, loops.depth.right) = (1, self.columns.length);
        loops
    }
}
