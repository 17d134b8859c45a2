//! The kernels of running reductions: one after the other, and in blocks.
//!
//! A sum of many elements takes up no more small ones, if each is added to it: from 2²⁴ on, an f32 plus one is itself.
//! So elements are combined in blocks, blocks in blocks of blocks, and each element of the result is the combination of
//! what came before its block with the elements of its block. The error grows with the logarithm of the length. The order
//! depends on the length of the axis alone: eager, compiled and batched runs give the same bits.

/// The number of elements of a block, and of blocks of a block of blocks.
const BLOCK: usize = 128;

/// The rows of a block in memory, in the order they are run through.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub(super) length: usize,
    /// The number of elements of a row, each of which is a run of its own.
    pub(super) inner: usize,
    pub(super) reverse: bool,
}

impl Rows {
    /// Where the row of a step is.
    fn start(self, step: usize) -> usize {
        let row = if self.reverse {
            self.length - 1 - step
        } else {
            step
        };
        row * self.inner
    }
}

/// Combines each row with the one before it.
pub(super) fn one_by_one<T: Copy>(elements: &mut [T], rows: Rows, combine: impl Fn(T, T) -> T) {
    for step in 1..rows.length {
        let (from, to) = (rows.start(step - 1), rows.start(step));
        for column in 0..rows.inner {
            elements[to + column] = combine(elements[from + column], elements[to + column]);
        }
    }
}

/// Combines each row with all before it, in blocks.
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
        all: Vec::new(),
    };
    let mut block = Vec::with_capacity(rows.inner);
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

/// Runs through a block whose first element is `block` already, and which lies behind `earlier`.
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

/// What came before a block.
struct Before<T> {
    /// At level 0 the combination of the blocks that fill no block of blocks yet, at level 1 that of such blocks of
    /// blocks, and so on; and whether there are any.
    levels: Vec<(Vec<T>, bool)>,
    /// The number of blocks.
    blocks: usize,
    /// The combination of all, with the earliest first; empty if there are none.
    all: Vec<T>,
}

impl<T: Copy> Before<T> {
    /// Adds a block, whose place is used for what it fills.
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
            self.levels.push((block.to_vec(), true));
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
    fn blocks_combine_what_rows_do() {
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
                // The last element that was combined, and how many were: any change of the order shows.
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
