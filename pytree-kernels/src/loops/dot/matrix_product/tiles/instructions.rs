//! What the instructions of a processor multiply: pairs of lines of tiles.

/// The number of lines of a tile.
pub(super) const LINES: usize = 16;

/// The number of pairs of neighbouring terms of a line of a tile. A pair is a `u32`, whose lower half is the first term.
pub(super) const PAIRS: usize = 16;

/// The number of pairs of a tile. A tile of the left operand has a row after the other. One of the right operand has the first pair of each
/// column, then the second pair of each column, and so on.
pub(super) const TILE: usize = LINES * PAIRS;

/// Instructions that multiply tiles.
pub(super) trait Instructions {
    /// Prepares the thread for products, until the value is dropped.
    fn prepare() -> Self;

    /// Multiplies two times two lines of tiles, which are checked. Writes the sums, or adds to them.
    fn multiply(&self, lines: &Lines<'_>, sums: &mut Sums<'_>, is_added: bool);
}

/// Two lines of tiles of each operand.
pub(super) struct Lines<'a> {
    /// In each operand, the tiles of the second line follow those of the first line.
    pub(super) left: &'a [[u32; TILE]],
    pub(super) right: &'a [[u32; TILE]],
    /// The number of tiles of a line.
    pub(super) count: usize,
}

/// 32 × 32 sums, whose rows are `width` elements apart.
pub(super) struct Sums<'a> {
    pub(super) elements: &'a mut [f32],
    pub(super) width: usize,
}
