//! Products whose bits are the same on all machines: the terms of an element are added one after the other, and each is rounded twice.
//!
//! The loops multiply tiles of the result, whose sums stay in registers. They name no instructions: the compiler vectorises them for any
//! machine, in web pages too.

use super::loops::Loops;
use super::plain::plain_product;
use super::stored::{Factor, Stored, Write};
use crate::base::array::{give_back, reused};
use crate::base::target::Target;

/// The rows and columns of a tile.
const ROWS: usize = 4;
const COLUMNS: usize = 8;

/// The most rows of the left operand that are laid out at once.
const BLOCK: usize = 64;

/// The fewest elements of the result for which laying out the operands is worth its time.
const LEAST: usize = ROWS * COLUMNS;

/// Lays out lines of an operand such that the elements of a step are side by side: a panel has `N` lines, and the last one is filled up
/// with 0. `at` returns the element of a line and a step.
#[inline(always)]
fn lay_out<T: Factor, const N: usize>(
    panels: &mut [T],
    lines: usize,
    depth: usize,
    at: impl Fn(usize, usize) -> T,
) {
    for (panel, elements) in panels.chunks_exact_mut(N * depth).enumerate() {
        for (step, elements) in elements.chunks_exact_mut(N).enumerate() {
            for (place, element) in elements.iter_mut().enumerate() {
                let line = panel * N + place;
                *element = if line < lines {
                    at(line, step)
                } else {
                    T::default()
                };
            }
        }
    }
}

/// Returns the sums of a tile.
#[inline]
fn tile<T: Factor>(left: &[T], right: &[T]) -> [[T; COLUMNS]; ROWS] {
    let mut sums = [[T::default(); COLUMNS]; ROWS];
    for (left, right) in left
        .as_chunks::<ROWS>()
        .0
        .iter()
        .zip(right.as_chunks::<COLUMNS>().0)
    {
        for (sums, &left) in sums.iter_mut().zip(left) {
            for (sum, &right) in sums.iter_mut().zip(right) {
                *sum = sum.plus_product(left, right);
            }
        }
    }
    sums
}

/// Writes the product of two matrices to `target`.
pub(super) fn portable_product<T: Stored>(
    loops: &Loops,
    left: &[T],
    right: &[T],
    mut target: Target<'_, T>,
    write: Write,
) {
    let Loops {
        rows,
        columns,
        depth,
        ..
    } = *loops;
    if rows.length * columns.length < LEAST || depth.length == 0 {
        return plain_product(loops, left, right, target, write);
    }
    let mut lefts: Vec<T::Sum> =
        reused(BLOCK.min(rows.length.next_multiple_of(ROWS)) * depth.length);
    let mut rights: Vec<T::Sum> = reused(COLUMNS * depth.length);
    for block in (0..rows.length).step_by(BLOCK) {
        let lines = BLOCK.min(rows.length - block);
        let lefts = &mut lefts[..lines.next_multiple_of(ROWS) * depth.length];
        lay_out::<_, ROWS>(lefts, lines, depth.length, |line, step| {
            left[(block + line) * rows.left + step * depth.left].wide()
        });
        for panel in (0..columns.length).step_by(COLUMNS) {
            let across = COLUMNS.min(columns.length - panel);
            lay_out::<_, COLUMNS>(&mut rights, across, depth.length, |line, step| {
                right[step * depth.right + (panel + line) * columns.right].wide()
            });
            for (number, lefts) in lefts.chunks_exact(ROWS * depth.length).enumerate() {
                let first = number * ROWS;
                let sums = tile(lefts, &rights);
                for (place, sums) in sums[..ROWS.min(lines - first)].iter().enumerate() {
                    let row = (block + first + place) * rows.result;
                    for (column, &sum) in sums[..across].iter().enumerate() {
                        let position = row + (panel + column) * columns.result;
                        write.sum(sum, &mut target.slice_mut(position, 1)[0]);
                    }
                }
            }
        }
    }
    give_back(lefts);
    give_back(rights);
}
