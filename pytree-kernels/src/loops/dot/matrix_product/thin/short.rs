//! Products of one line with a short operand, without memory for partial sums.

use super::factors::{Lines, Results};
use super::fused::{Fused, LANES};
use super::leaves::{Neighbours, join_chunks, joined_rows, multiply_lines};
use super::numbers::Wide;
use crate::base::instructions::{fused_leaf, load, padded};

/// The greatest number of elements of the many lines. They are in the first-level cache, so nothing is requested ahead.
const SHORT: usize = 4096;

/// The number of lines whose results are computed side by side.
const LINES: usize = LANES;

/// Returns whether a product is one of a single line with a short operand.
pub(super) fn is_short(few: Lines, many: Lines, depth: usize) -> bool {
    let are_neighbours = few.depth == 1 && (many.depth == 1 || many.stride == 1);
    few.count == 1 && are_neighbours && many.count * depth <= SHORT
}

/// Writes the products of one line with many.
pub(super) fn multiply<S: Fused>(
    one: &[S],
    (many, lines): (&[S], Lines),
    results: &mut dyn Results<S>,
) {
    for first in (0..lines.count).step_by(LINES) {
        let count = LINES.min(lines.count - first);
        let many = &many[first * lines.stride..];
        let sums = if lines.stride == 1 {
            across(one, (many, lines.depth))
        } else {
            along(one, (many, lines.stride), count)
        };
        results.store(first * lines.result, lines.result, &sums[..count]);
    }
}

/// Returns the products of one line with [`LINES`] lines whose elements at a step are neighbours. Lines after the last one have any
/// products.
fn across<S: Fused>(one: &[S], (many, stride): (&[S], usize)) -> [S; LINES] {
    // Steps at which elements follow for all of the lines. Each partial sum has at most one term after them.
    let whole = match many.len().checked_sub(LINES) {
        Some(last) => one.len().min(last / stride + 1),
        None => 0,
    };
    fused_leaf! {
        joined_rows(#[inline(always)] |lane| {
            let mut sums = [S::default(); LINES];
            let mut term = lane;
            while term < whole {
                add(&mut sums, one[term], load(many, term * stride));
                term += LANES;
            }
            if term < one.len() {
                add(&mut sums, one[term], padded(many, term * stride));
            }
            sums
        })
    }
}

#[inline(always)]
fn add<S: Fused>(sums: &mut [S; LINES], factor: S, row: [S; LINES]) {
    for line in 0..LINES {
        sums[line] = sums[line].plus_fused(factor, row[line]);
    }
}

/// Returns the products of one line with `count` lines whose elements are neighbours.
fn along<S: Fused>(one: &[S], (many, stride): (&[S], usize), count: usize) -> [S; LINES] {
    let (mut partial, mut sums) = ([[S::default(); LANES]; LINES], [S::default(); LINES]);
    let neighbours = |elements, count, stride| Neighbours {
        elements,
        count,
        stride,
    };
    let (few, many) = (neighbours(one, 1, 0), neighbours(many, count, stride));
    multiply_lines(
        Wide::<S>::NEW,
        few,
        (many, 0),
        one.len(),
        &mut partial[..count],
        false,
    );
    join_chunks(&partial[..count], &mut sums[..count]);
    sums
}
