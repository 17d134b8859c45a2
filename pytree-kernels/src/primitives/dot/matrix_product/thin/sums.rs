//! The sums of products of neighbouring elements, in registers.

use super::numbers::Numbers;
use super::{Fused, LANES, Lines};
use crate::base::prefetch::{LINE, prefetch};
use crate::primitives::dot::matrix_product::Stored;

/// Returns whether the chunk at `place` is the first of a cache line.
#[inline(always)]
fn is_first_of_line<T>(place: usize) -> bool {
    let chunks = LINE / (LANES * size_of::<T>()).max(1);
    place.is_multiple_of(chunks.max(1))
}

/// Returns the sums of the products of each of `F` lines with neighbouring lines, of which the first is `first`. Requests the
/// elements that come `ahead` elements later.
#[inline(always)]
pub(super) fn sums<E: Stored<Sum: Fused>, N: Numbers<E::Sum>, const F: usize, const L: usize>(
    numbers: N,
    few: [&[E]; F],
    many: Lines<'_, N::Element>,
    first: usize,
    ahead: Option<usize>,
) -> [[E::Sum; L]; F] {
    let depth = few[0].len();
    let (whole, rest) = (depth / LANES, depth % LANES);
    let few_chunks = few.map(|line| &line.as_chunks::<LANES>().0[..whole]);
    let lines: [&[N::Element]; L] = std::array::from_fn(|line| many.line(first + line, depth));
    let chunks = lines.map(|line| &line.as_chunks::<LANES>().0[..whole]);
    let ahead = ahead.and_then(|ahead| many.elements.get(first * many.stride + ahead..));
    let ahead = ahead.unwrap_or_default();
    let mut sums = [[[E::Sum::default(); LANES]; L]; F];
    for place in 0..whole {
        for line in 0..L {
            let chunk = numbers.along(&chunks[line][place], first + line, place * LANES);
            for row in 0..F {
                add_chunk(&mut sums[row][line], &chunk, &few_chunks[row][place]);
            }
        }
        if is_first_of_line::<N::Element>(place) {
            for line in 0..L {
                let at = line * many.stride + place * LANES;
                if at < ahead.len() {
                    prefetch(&ahead[at..=at]);
                }
            }
        }
    }
    if rest > 0 {
        let start = whole * LANES;
        for line in 0..L {
            let mut chunk = [E::Sum::default(); LANES];
            for (at, &element) in lines[line][start..].iter().enumerate() {
                chunk[at] = numbers.one(element, first + line, start + at);
            }
            for row in 0..F {
                let mut last = [E::default(); LANES];
                last[..rest].copy_from_slice(&few[row][start..]);
                add_chunk(&mut sums[row][line], &chunk, &last);
            }
        }
    }
    sums.map(|sums| sums.map(joined))
}

/// Returns the sum of partial sums.
#[inline(always)]
pub(super) fn joined<S: Fused>(mut sums: [S; LANES]) -> S {
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            sums[lane] = sums[lane].plus(sums[lane + half]);
        }
        half /= 2;
    }
    sums[0]
}

/// Adds the products of neighbouring elements to partial sums.
#[inline(always)]
fn add_chunk<E: Stored<Sum: Fused>>(
    sums: &mut [E::Sum; LANES],
    chunk: &[E::Sum; LANES],
    few: &[E; LANES],
) {
    for lane in 0..LANES {
        sums[lane] = sums[lane].plus_fused(few[lane].wide(), chunk[lane]);
    }
}

/// Adds multiples of rows to the sums of each of `F` lines, one row after the other. A row has the elements of neighbouring lines, of
/// which the first is `first`, at one of the `steps`. Requests the elements at the same places of the rows `ahead`, which are
/// `distance` apart.
#[inline(always)]
pub(super) fn add<S: Fused, N: Numbers<S>, const F: usize, const T: usize>(
    numbers: N,
    rows: [&[N::Element]; T],
    (first, steps): (usize, [usize; T]),
    factors: [[S; T]; F],
    sums: &mut [&mut [S]; F],
    (ahead, distance): (&[N::Element], usize),
) {
    let whole = sums[0].len() / LANES;
    let chunks = rows.map(|row| &row.as_chunks::<LANES>().0[..whole]);
    for place in 0..whole {
        if is_first_of_line::<N::Element>(place) {
            for row in 0..T {
                let at = row * distance + place * LANES;
                if at < ahead.len() {
                    prefetch(&ahead[at..=at]);
                }
            }
        }
        let mut totals = [[S::default(); LANES]; F];
        for line in 0..F {
            totals[line] = sums[line].as_chunks::<LANES>().0[place];
        }
        for row in 0..T {
            let chunk = numbers.across(&chunks[row][place], first + place * LANES, steps[row]);
            for line in 0..F {
                for lane in 0..LANES {
                    let total = totals[line][lane];
                    totals[line][lane] = total.plus_fused(factors[line][row], chunk[lane]);
                }
            }
        }
        for line in 0..F {
            sums[line].as_chunks_mut::<LANES>().0[place] = totals[line];
        }
    }
    for line in 0..F {
        for at in whole * LANES..sums[line].len() {
            for row in 0..T {
                let number = numbers.one(rows[row][at], first + at, steps[row]);
                sums[line][at] = sums[line][at].plus_fused(factors[line][row], number);
            }
        }
    }
}
