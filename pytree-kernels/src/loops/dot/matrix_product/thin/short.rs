//! Products of one line with a short operand, without memory for partial sums.

use super::factors::{Lines, Results};
use super::fused::{Fused, LANES};
use crate::base::instructions::fused_leaf;

/// The greatest number of elements of the many lines. They are in the first-level cache, so nothing is requested ahead.
const SHORT: usize = 4096;

/// The number of lines whose results are computed side by side.
const LINES: usize = 16;

/// Returns whether a product is one of a single line with a short operand.
pub(super) fn is_short(few: Lines, many: Lines, depth: usize) -> bool {
    few.count == 1 && many.count * depth <= SHORT
}

/// Writes the products of one line with many.
pub(super) fn multiply<S: Fused>(
    one: (&[S], Lines),
    (many, lines): (&[S], Lines),
    depth: usize,
    results: &mut dyn Results<S>,
) {
    for first in (0..lines.count).step_by(LINES) {
        let count = LINES.min(lines.count - first);
        let many = (&many[first * lines.stride..], lines);
        let sums = if lines.stride == 1 && count == LINES {
            across((one.0, one.1.depth), many, depth)
        } else {
            along((one.0, one.1.depth), many, depth, count)
        };
        results.store(first * lines.result, lines.result, &sums[..count]);
    }
}

/// Returns the products of one line with [`LINES`] lines whose elements at a step are neighbours.
fn across<S: Fused>(
    (one, step): (&[S], usize),
    (many, lines): (&[S], Lines),
    depth: usize,
) -> [S; LINES] {
    fused_leaf! {
        let mut partial = [[S::default(); LINES]; LANES];
        for term in 0..depth {
            let (number, row) = (one[term * step], &many[term * lines.depth..][..LINES]);
            let sums = &mut partial[term % LANES];
            for line in 0..LINES {
                sums[line] = sums[line].plus_fused(number, row[line]);
            }
        }
        let mut distance = LANES / 2;
        while distance > 0 {
            for lane in 0..distance {
                for line in 0..LINES {
                    partial[lane][line] = partial[lane][line].plus(partial[lane + distance][line]);
                }
            }
            distance /= 2;
        }
        partial[0]
    }
}

/// Returns the products of one line with `count` others.
fn along<S: Fused>(
    (one, step): (&[S], usize),
    (many, lines): (&[S], Lines),
    depth: usize,
    count: usize,
) -> [S; LINES] {
    fused_leaf! {
        let mut sums = [S::default(); LINES];
        for line in 0..count {
            let many = &many[line * lines.stride..];
            let mut partial = [S::default(); LANES];
            let mut start = 0;
            while start < depth {
                if step == 1 && lines.depth == 1 && start + LANES <= depth {
                    let (one, many) = (&one[start..][..LANES], &many[start..][..LANES]);
                    for lane in 0..LANES {
                        partial[lane] = partial[lane].plus_fused(one[lane], many[lane]);
                    }
                } else {
                    for lane in 0..LANES.min(depth - start) {
                        let term = start + lane;
                        partial[lane] = partial[lane].plus_fused(one[term * step], many[term * lines.depth]);
                    }
                }
                start += LANES;
            }
            let mut distance = LANES / 2;
            while distance > 0 {
                for lane in 0..distance {
                    partial[lane] = partial[lane].plus(partial[lane + distance]);
                }
                distance /= 2;
            }
            sums[line] = partial[0];
        }
        sums
    }
}
