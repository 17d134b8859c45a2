//! The leaf loops of thin products: sums of products in registers, for each number of lines that a loop reads side by side.

use super::fused::{Fused, LANES};
use super::numbers::Numbers;
use crate::base::instructions::{fused_leaf, have_many_registers, load, store};
use crate::base::prefetch::{LINE, request};

/// The number of lines that are read side by side, so that a chunk of the few lines is read once for all of them.
pub(super) const LINES: usize = 4;

/// The greatest number of few lines with which lines in memory are read one after the other. The hardware follows one stream best.
const ONE_BY_ONE: usize = 2;

/// The most bytes of an element with which the additions to one sum take longer than memory is read. Then, lines are read side by side.
const NARROW: usize = 2;

/// The distance in bytes between an element of a stream and the one that is requested meanwhile.
const AHEAD: usize = 2048;

/// Lines whose elements are neighbours.
#[derive(Clone, Copy)]
pub(super) struct Neighbours<'a, E> {
    pub(super) elements: &'a [E],
    pub(super) count: usize,
    /// The distance between neighbouring lines.
    pub(super) stride: usize,
}

impl<E> Neighbours<'_, E> {
    /// Returns the lines after some of them.
    pub(super) fn without(self, count: usize) -> Self {
        Self {
            elements: self.elements.get(count * self.stride..).unwrap_or_default(),
            count: self.count - count,
            ..self
        }
    }
}

/// Requests the element at a place of each of `count` neighbours, which are `distance` apart, if the chunk at the place is the first of
/// a cache line.
#[inline(always)]
fn request_chunks<E>(elements: &[E], place: usize, count: usize, distance: usize) {
    let chunks = (LINE / (LANES * size_of::<E>()).max(1)).max(1);
    if !place.is_multiple_of(chunks) {
        return;
    }
    let mut at = place * LANES;
    for _ in 0..count {
        if at < elements.len() {
            request(&elements[at]);
        }
        at += distance;
    }
}

/// Writes the partial sums of the products of each of the few lines with all of the many lines: one row for each of the few lines. The
/// number of the first of the many lines is given. Lines in memory are requested before they are read.
pub(super) fn multiply_lines<S: Fused, N: Numbers<S>>(
    numbers: N,
    few: Neighbours<'_, S>,
    (many, number): (Neighbours<'_, N::Element>, usize),
    depth: usize,
    partial: &mut [[S; LANES]],
    are_in_memory: bool,
) {
    let has_pairs = have_many_registers();
    let are_single = few.count <= ONE_BY_ONE && are_in_memory && size_of::<N::Element>() > NARROW;
    let grouped = if are_single {
        0
    } else {
        many.count - many.count % LINES
    };
    fused_leaf! {
        let mut group = Group { numbers, few, row: 0, many, first: 0, number, depth, is_requesting: false };
        while group.first < many.count {
            let is_group = group.first < grouped;
            group.row = 0;
            while group.row < few.count {
                // The first of the few lines request what is read next.
                group.is_requesting = are_in_memory && group.row == 0;
                let is_pair = has_pairs && group.row + 2 <= few.count;
                match (is_pair, is_group) {
                    (true, true) => group.multiply::<2, LINES>(partial),
                    (true, false) => group.multiply::<2, 1>(partial),
                    (false, true) => group.multiply::<1, LINES>(partial),
                    (false, false) => group.multiply::<1, 1>(partial),
                }
                group.row += if is_pair { 2 } else { 1 };
            }
            group.first += if is_group { LINES } else { 1 };
        }
    }
}

/// Some of the few lines and some of the many lines, which a loop reads side by side.
struct Group<'a, S, N: Numbers<S>> {
    numbers: N,
    few: Neighbours<'a, S>,
    row: usize,
    many: Neighbours<'a, N::Element>,
    first: usize,
    /// The number of the first of the many lines.
    number: usize,
    depth: usize,
    is_requesting: bool,
}

impl<S: Fused, N: Numbers<S>> Group<'_, S, N> {
    /// Writes the partial sums of the products of `F` of the few lines with `L` of the many lines.
    #[inline(always)]
    fn multiply<const F: usize, const L: usize>(&self, partial: &mut [[S; LANES]]) {
        let Self {
            numbers,
            few,
            row,
            many,
            first,
            number,
            depth,
            ..
        } = *self;
        let (whole, rest) = (depth / LANES, depth % LANES);
        let (mut few_lines, mut lines) = ([&[] as &[S]; F], [&[] as &[N::Element]; L]);
        let mut few_chunks = [&[] as &[[S; LANES]]; F];
        let mut chunks = [&[] as &[[N::Element; LANES]]; L];
        for at in 0..F {
            few_lines[at] = &few.elements[(row + at) * few.stride..][..depth];
            few_chunks[at] = &few_lines[at].as_chunks::<LANES>().0[..whole];
        }
        for line in 0..L {
            lines[line] = &many.elements[(first + line) * many.stride..][..depth];
            chunks[line] = &lines[line].as_chunks::<LANES>().0[..whole];
        }
        let ahead = first * many.stride
            + match L {
                1 => AHEAD / size_of::<N::Element>(),
                _ => L * many.stride,
            };
        let is_requesting = self.is_requesting && ahead < many.elements.len();
        let next = if is_requesting {
            &many.elements[ahead..]
        } else {
            &[]
        };
        let number = number + first;
        let mut totals = [[[S::default(); LANES]; L]; F];
        for place in 0..whole {
            for line in 0..L {
                let chunk = numbers.along(&chunks[line][place], number + line, place * LANES);
                for at in 0..F {
                    add_chunk(&mut totals[at][line], &chunk, &few_chunks[at][place]);
                }
            }
            request_chunks(next, place, L, many.stride);
        }
        if rest > 0 {
            let start = whole * LANES;
            for line in 0..L {
                let mut chunk = [S::default(); LANES];
                for at in 0..rest {
                    chunk[at] = numbers.one(lines[line][start + at], number + line, start + at);
                }
                for at in 0..F {
                    let mut last = [S::default(); LANES];
                    for lane in 0..rest {
                        last[lane] = few_lines[at][start + lane];
                    }
                    add_chunk(&mut totals[at][line], &chunk, &last);
                }
            }
        }
        for at in 0..F {
            for line in 0..L {
                partial[(row + at) * many.count + first + line] = totals[at][line];
            }
        }
    }
}

/// Adds the products of neighbouring elements to partial sums.
#[inline(always)]
fn add_chunk<S: Fused>(sums: &mut [S; LANES], chunk: &[S; LANES], few: &[S; LANES]) {
    for lane in 0..LANES {
        sums[lane] = sums[lane].plus_fused(few[lane], chunk[lane]);
    }
}

/// The elements of neighbouring lines at some steps of the depth.
#[derive(Clone, Copy)]
pub(super) struct StepRows<'a, E> {
    /// The rows at the steps, of which the first is `step` and the others follow at the distance [`LANES`].
    pub(super) elements: &'a [E],
    /// The distance between the rows.
    pub(super) distance: usize,
    /// The number of lines.
    pub(super) count: usize,
    /// The number of the first line.
    pub(super) first: usize,
    pub(super) step: usize,
    /// Rows at the same distances, which are requested.
    pub(super) next: &'a [E],
}

/// Adds multiples of `T` rows to the sums of `F` of the few lines, one row after the other. The sums of the lines are `width` elements
/// apart. Returns `F`.
pub(super) fn add_rows<S: Fused, N: Numbers<S>, const F: usize, const T: usize>(
    numbers: N,
    steps: StepRows<'_, N::Element>,
    few: Neighbours<'_, S>,
    sums: &mut [S],
    width: usize,
) -> usize {
    fused_leaf! {
        let StepRows { elements, distance, count, first, step, next } = steps;
        let whole = count / LANES;
        let mut rows = [&[] as &[N::Element]; T];
        let mut chunks = [&[] as &[[N::Element; LANES]]; T];
        let mut factors = [[S::default(); T]; F];
        for row in 0..T {
            rows[row] = &elements[row * distance..][..count];
            chunks[row] = &rows[row].as_chunks::<LANES>().0[..whole];
            for line in 0..F {
                factors[line][row] = few.elements[line * few.stride + step + LANES * row];
            }
        }
        for place in 0..whole {
            request_chunks(next, place, T, distance);
            let mut totals = [[S::default(); LANES]; F];
            for line in 0..F {
                totals[line] = load(sums, line * width + place * LANES);
            }
            for row in 0..T {
                let chunk = numbers.across(&chunks[row][place], first + place * LANES, step + LANES * row);
                for line in 0..F {
                    for lane in 0..LANES {
                        let total = totals[line][lane];
                        totals[line][lane] = total.plus_fused(factors[line][row], chunk[lane]);
                    }
                }
            }
            for line in 0..F {
                store(sums, line * width + place * LANES, totals[line]);
            }
        }
        for line in 0..F {
            for at in whole * LANES..count {
                for row in 0..T {
                    let number = numbers.one(rows[row][at], first + at, step + LANES * row);
                    let sum = &mut sums[line * width + at];
                    *sum = sum.plus_fused(factors[line][row], number);
                }
            }
        }
        F
    }
}

/// Writes the sum of the partial sums of each result. In the loop that adds products, these additions would keep the compiler from using
/// whole vectors.
pub(super) fn join_chunks<S: Fused>(partial: &[[S; LANES]], sums: &mut [S]) {
    fused_leaf! {
        let partial = &partial[..sums.len()];
        for at in 0..sums.len() {
            sums[at] = joined(partial[at]);
        }
    }
}

/// Writes the sums of partial sums, each of which is a row.
pub(super) fn join_rows<S: Fused>(rows: [&[S]; LANES], sums: &mut [S]) {
    fused_leaf! {
        let (chunks, rest) = sums.as_chunks_mut::<LANES>();
        let whole = chunks.len();
        let mut of_rows = [&[] as &[[S; LANES]]; LANES];
        for row in 0..LANES {
            of_rows[row] = &rows[row].as_chunks::<LANES>().0[..whole];
        }
        for place in 0..whole {
            chunks[place] = joined_rows(#[inline(always)] |row| of_rows[row][place]);
        }
        for at in 0..rest.len() {
            let mut numbers = [S::default(); LANES];
            for row in 0..LANES {
                numbers[row] = rows[row][whole * LANES + at];
            }
            rest[at] = joined(numbers);
        }
    }
}

/// Returns the sums of 16 rows in the order of [`joined`]. Without a loop over rows, all sums stay in registers.
#[inline(always)]
pub(in super::super) fn joined_rows<S: Fused>(row: impl Fn(usize) -> [S; LANES]) -> [S; LANES] {
    let even = added(quarter(&row, 0), quarter(&row, 2));
    added(even, added(quarter(&row, 1), quarter(&row, 3)))
}

/// Returns the sums of every fourth of 16 rows from `first` on.
#[inline(always)]
fn quarter<S: Fused>(row: &impl Fn(usize) -> [S; LANES], first: usize) -> [S; LANES] {
    let sums = added(row(first), row(first + 8));
    added(sums, added(row(first + 4), row(first + 12)))
}

/// Returns the sums of neighbouring elements.
#[inline(always)]
fn added<S: Fused>(mut left: [S; LANES], right: [S; LANES]) -> [S; LANES] {
    for lane in 0..LANES {
        left[lane] = left[lane].plus(right[lane]);
    }
    left
}

/// Returns the sum of partial sums.
#[inline(always)]
fn joined<S: Fused>(mut sums: [S; LANES]) -> S {
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            sums[lane] = sums[lane].plus(sums[lane + half]);
        }
        half /= 2;
    }
    sums[0]
}
