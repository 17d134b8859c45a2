//! The kernels of cumulative reductions: sequential and blocked.
//!
//! A small number that is added to a large sum is lost: an f32 above 2²⁴ does not change if 1 is added. So elements are
//! combined in blocks, and blocks are combined in blocks of blocks. Each result combines the earlier blocks with the
//! first elements of the result's own block, so the error grows only with the logarithm of the length. The order of the
//! combinations depends only on the length of the axis, so eager, compiled and batched runs give the same bits.

use crate::base::array::reserved;

/// The number of elements in a block, and the number of blocks in a block of blocks.
const BLOCK: usize = 128;

/// The memory layout of the rows that a cumulative reduction combines, and the order in which the reduction visits the
/// rows.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub(super) length: usize,
    /// The number of elements of a row. Each column is reduced separately.
    pub(super) inner: usize,
    pub(super) reverse: bool,
}

impl Rows {
    /// Returns the memory position of the row that is visited at `step`.
    fn start(self, step: usize) -> usize {
        let row = if self.reverse {
            self.length - 1 - step
        } else {
            step
        };
        row * self.inner
    }
}

/// Combines each row with the result for the previous row, sequentially.
pub(super) fn one_by_one<T: Copy>(elements: &mut [T], rows: Rows, combine: impl Fn(T, T) -> T) {
    for step in 1..rows.length {
        let (from, to) = (rows.start(step - 1), rows.start(step));
        for column in 0..rows.inner {
            elements[to + column] = combine(elements[from + column], elements[to + column]);
        }
    }
}

/// Combines each row with all rows before it, in blocks.
pub(super) fn in_blocks<T: Copy>(
    elements: &mut [T],
    rows: Rows,
    combine: impl Fn(T, T) -> T + Copy,
) {
    if rows.length <= BLOCK || rows.inner == 0 {
        return one_by_one(elements, rows, combine);
    }
    let mut before = Before {
        levels: Vec::new(),
        blocks: 0,
        all: reserved(rows.inner),
    };
    let mut block = reserved(rows.inner);
    for first in (0..rows.length).step_by(BLOCK) {
        let end = rows.length.min(first + BLOCK);
        block.clear();
        block.extend_from_slice(&elements[rows.start(first)..][..rows.inner]);
        if rows.inner == 1 {
            let (low, high) = (rows.start(first), rows.start(end - 1));
            let part = &mut elements[low.min(high)..=low.max(high)];
            let earlier = before.all.first().copied();
            if rows.reverse {
                run_through(part.iter_mut().rev(), earlier, &mut block[0], combine);
            } else {
                run_through(part.iter_mut(), earlier, &mut block[0], combine);
            }
        } else {
            for step in first..end {
                let row = &mut elements[rows.start(step)..][..rows.inner];
                if step > first {
                    let pairs = block.iter_mut().zip(&*row);
                    pairs.for_each(|(block, &element)| *block = combine(*block, element));
                }
                row.copy_from_slice(&block);
                let pairs = row.iter_mut().zip(&before.all);
                pairs.for_each(|(element, &earlier)| *element = combine(earlier, *element));
            }
        }
        before.push(&mut block, combine);
    }
}

/// Replaces each element of a block by the combination of `earlier` and the block's elements up to this element. Before
/// the call, `block` holds the first element. After the call, `block` holds the combination of all elements of the
/// block.
fn run_through<'a, T: Copy + 'a>(
    elements: impl Iterator<Item = &'a mut T>,
    earlier: Option<T>,
    block: &mut T,
    combine: impl Fn(T, T) -> T,
) {
    let mut sum = *block;
    let mut is_first = true;
    for element in elements {
        if !std::mem::take(&mut is_first) {
            sum = combine(sum, *element);
        }
        *element = earlier.map_or(sum, |earlier| combine(earlier, sum));
    }
    *block = sum;
}

/// The combination of all blocks before the current block.
struct Before<T> {
    /// For each level, a combination and a flag that says whether the combination is in use. Level 0 combines the
    /// blocks of an incomplete block of blocks, level 1 combines complete blocks of blocks, and so on.
    levels: Vec<(Vec<T>, bool)>,
    /// The number of blocks that were added.
    blocks: usize,
    /// The combination of all added blocks, with the earliest block first. Empty if no block was added.
    all: Vec<T>,
}

impl<T: Copy> Before<T> {
    /// Adds a block, whose combination is in `block`. Overwrites `block` when a level is complete.
    fn push(&mut self, block: &mut [T], combine: impl Fn(T, T) -> T + Copy) {
        self.blocks += 1;
        let mut size = 1_usize;
        let mut placed = false;
        for (level, is_filled) in &mut self.levels {
            if *is_filled {
                let pairs = block.iter_mut().zip(&*level);
                pairs.for_each(|(block, &earlier)| *block = combine(earlier, *block));
            }
            size = size.saturating_mul(BLOCK);
            *is_filled = !self.blocks.is_multiple_of(size);
            if *is_filled {
                level.copy_from_slice(block);
                placed = true;
                break;
            }
        }
        if !placed {
            let mut level = reserved(block.len());
            level.extend_from_slice(block);
            self.levels.push((level, true));
        }
        self.all.clear();
        for (level, _) in self.levels.iter().rev().filter(|level| level.1) {
            if self.all.is_empty() {
                self.all.extend_from_slice(level);
                continue;
            }
            let pairs = self.all.iter_mut().zip(level);
            pairs.for_each(|(all, &later)| *all = combine(*all, later));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocked_and_sequential_kernels_agree() {
        for length in [
            0,
            1,
            127,
            128,
            129,
            128 * 128,
            128 * 128 + 1,
            3 * 128 * 128 + 5,
        ] {
            for (inner, reverse) in [(1, false), (1, true), (3, false), (3, true)] {
                let rows = Rows {
                    length,
                    inner,
                    reverse,
                };
                // Each value holds the last combined element and the number of combined elements, so it shows the
                // order.
                let elements: Vec<(usize, usize)> =
                    (0..length * inner).map(|element| (element, 1)).collect();
                let follow = |earlier: (usize, usize), later: (usize, usize)| {
                    let distance = earlier.0.abs_diff(later.0);
                    assert_eq!(distance, later.1 * inner, "in order, and none left out");
                    (later.0, earlier.1 + later.1)
                };
                let (mut expected, mut found) = (elements.clone(), elements);
                one_by_one(&mut expected, rows, follow);
                in_blocks(&mut found, rows, follow);
                assert_eq!(found, expected);
            }
        }
    }
}
