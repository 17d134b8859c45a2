//! Products with many lines whose elements are neighbours, or copied to be neighbours.

use super::factors::{Factors, Results};
use super::fused::{Fused, LANES};
use super::leaves::{LINES, Neighbours, join_chunks, multiply_lines};
use super::numbers::{Numbers, Wide};
use crate::base::array::{give_back, reused};

/// The most lines that are multiplied before their results are written.
const READ: usize = 64;

/// About how many numbers are copied before they are multiplied. They stay in the first-level cache.
const COPIED: usize = 2048;

/// Writes a product, some lines after the other.
pub(super) fn by_lines<S: Fused, N: Numbers<S>>(
    factors: Factors<'_, S, N>,
    results: &mut dyn Results<S>,
) {
    let Factors {
        few,
        many,
        numbers,
        depth,
    } = factors;
    let lines = many.lines;
    let are_read = N::ARE_READ && lines.depth == 1;
    let group = if are_read {
        READ
    } else {
        (COPIED / depth).max(1).next_multiple_of(LINES)
    };
    let group = group.min(lines.count);
    let mut copied = if are_read {
        Vec::new()
    } else {
        reused(group * depth)
    };
    let mut partial = vec![[S::default(); LANES]; few.lines.count * group];
    let mut sums = vec![S::default(); partial.len()];
    for first in (0..lines.count).step_by(group) {
        let count = group.min(lines.count - first);
        let partial = &mut partial[..few.lines.count * count];
        let sums = &mut sums[..partial.len()];
        if are_read {
            let stride = lines.stride;
            let elements = &many.elements[first * stride..];
            let read = Neighbours {
                elements,
                count,
                stride,
            };
            multiply_lines(numbers, few.lines, (read, first), depth, partial, true);
        } else {
            for (line, copied) in copied.chunks_exact_mut(depth).take(count).enumerate() {
                factors.copy_line(first + line, copied);
            }
            let read = Neighbours {
                elements: &copied[..],
                count,
                stride: depth,
            };
            multiply_lines(Wide::<S>::NEW, few.lines, (read, 0), depth, partial, false);
        }
        join_chunks(partial, sums);
        for (row, sums) in sums.chunks_exact(count).enumerate() {
            results.store(row * few.result + first * lines.result, lines.result, sums);
        }
    }
    give_back(copied);
}
