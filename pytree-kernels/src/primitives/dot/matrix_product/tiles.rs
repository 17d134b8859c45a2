//! Blocks of bf16 for the instructions of x86-64 that multiply pairs of numbers: those for matrices (AMX), or those for vectors
//! (`AVX512_BF16`). Both treat a subnormal factor or sum as 0.

#![allow(
    clippy::inline_always,
    reason = "only inlined code is compiled for the wide instruction sets"
)]

mod matrices;
mod vectors;

use std::marker::PhantomData;

use half::bf16;
use pytree_base::bug::expect_some;

use super::Write;
use super::half::{Blocks, Matrix, half_product};
use super::loops::Loops;
use crate::base::instructions::arch;
use crate::base::prefetch::prefetch;
use crate::base::target::Target;

/// The number of lines of a tile.
const LINES: usize = 16;

/// The number of pairs of neighbouring terms of a line of a tile. A pair is a `u32`, whose lower half is the first term.
const PAIRS: usize = 16;

/// The number of pairs of a tile. A tile of the left operand has a row after the other. One of the right operand has the first pair of each
/// column, then the second pair of each column, and so on.
const TILE: usize = LINES * PAIRS;

/// Instructions that multiply tiles.
trait Instructions {
    /// Prepares the thread for products, until the value is dropped.
    fn prepare() -> Self;

    /// Multiplies two times two lines of tiles, which are checked. Writes the sums, or adds to them.
    fn multiply(&self, lines: &Lines<'_>, sums: &mut Sums<'_>, is_added: bool);
}

/// Two lines of tiles of each operand.
struct Lines<'a> {
    /// In each operand, the tiles of the second line follow those of the first line.
    left: &'a [[u32; TILE]],
    right: &'a [[u32; TILE]],
    /// The number of tiles of a line.
    count: usize,
}

/// 32 × 32 sums, whose rows are `width` elements apart.
struct Sums<'a> {
    elements: &'a mut [f32],
    width: usize,
}

/// A function that writes the product of matrices of bf16, given by their bits.
type Product = fn(&Loops, &[u16], &[u16], Target<'_, bf16>, Write);

/// Returns the product by the widest instructions of the processor, or `None` if it has none for bf16.
pub(super) fn product() -> Option<Product> {
    if matrices::are_available() {
        Some(half_product::<Tiles<matrices::Registers>, bf16>)
    } else if vectors::are_available() {
        Some(half_product::<Tiles<vectors::Registers>, bf16>)
    } else {
        None
    }
}

/// Blocks that consist of tiles. Neighbouring tiles are those of the same lines.
struct Tiles<I>(PhantomData<I>);

impl<I: Instructions> Blocks for Tiles<I> {
    type Source = u16;
    type Element = u32;

    const UNIT: usize = 32;

    fn lay_out_left(matrix: &Matrix<'_, u16>, block: &mut [u32]) {
        arch().dispatch(Layout {
            matrix,
            block,
            is_right: false,
        });
    }

    fn lay_out_right(matrix: &Matrix<'_, u16>, block: &mut [u32]) {
        arch().dispatch(Layout {
            matrix,
            block,
            is_right: true,
        });
    }

    fn multiply(
        [rows, columns, steps]: [usize; 3],
        left: &[u32],
        right: &[u32],
        sums: &mut [f32],
        write: Write,
    ) {
        let count = steps.div_ceil(2 * PAIRS);
        let instructions = I::prepare();
        let (left, right) = (left.as_chunks().0, right.as_chunks().0);
        // Two lines of tiles of each operand at once: each tile is then used twice.
        for column in (0..columns).step_by(2 * LINES) {
            for row in (0..rows).step_by(2 * LINES) {
                let lines = Lines {
                    left: &left[row / LINES * count..][..2 * count],
                    right: &right[column / LINES * count..][..2 * count],
                    count,
                };
                let elements = &mut sums[row * columns + column..];
                let needed = (2 * LINES - 1) * columns + 2 * LINES;
                assert!(
                    count > 0 && elements.len() >= needed,
                    "whole tiles and sums"
                );
                let width = columns;
                instructions.multiply(&lines, &mut Sums { elements, width }, write == Write::Add);
            }
        }
    }
}

/// Lays out lines of an operand as tiles.
struct Layout<'a> {
    matrix: &'a Matrix<'a, u16>,
    block: &'a mut [u32],
    is_right: bool,
}

impl pulp::WithSimd for Layout<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(mut self, _: S) {
        let ((lines, by_line), (steps, _)) = (self.matrix.lines, self.matrix.steps);
        let tiles = steps.div_ceil(2 * PAIRS);
        if by_line > 1 || !self.is_right {
            for line in (0..lines).step_by(LINES) {
                (0..tiles).for_each(|tile| self.lay_out(line, tile));
            }
            return;
        }
        // A cache line has elements of many lines, so all lines at some steps are laid out before the next steps.
        for tile in 0..tiles {
            let mut line = 0;
            while line < lines {
                let is_whole = line + 2 * LINES <= lines && (tile + 1) * 2 * PAIRS <= steps;
                line += if is_whole {
                    self.lay_out_across(line, tile);
                    2 * LINES
                } else {
                    self.lay_out(line, tile);
                    LINES
                };
            }
        }
    }
}

impl Layout<'_> {
    /// Returns the position of the tile with a line.
    #[inline(always)]
    fn place(&self, line: usize, tile: usize) -> usize {
        line / LINES * self.matrix.steps.0.div_ceil(2 * PAIRS) + tile
    }

    /// Lays out two tiles of the right operand, whose lines are neighbours in memory.
    #[inline(always)]
    fn lay_out_across(&mut self, line: usize, tile: usize) {
        let Matrix {
            elements,
            steps: (_, by_step),
            ..
        } = *self.matrix;
        let places = [line, line + LINES].map(|line| self.place(line, tile));
        let (tiles, _) = self.block.as_chunks_mut::<TILE>();
        let mut targets = expect_some(tiles.get_disjoint_mut(places).ok(), "two tiles");
        let source = &elements[line + tile * 2 * PAIRS * by_step..];
        for pair in 0..PAIRS {
            let [first, second]: [[u16; 2 * LINES]; 2] = [2 * pair, 2 * pair + 1].map(|step| {
                // The steps of a tile are so far apart that the processor does not request the next ones by itself.
                let next = (step + 2 * PAIRS) * by_step;
                if let Some(next) = source.get(next..next + 2 * LINES) {
                    prefetch(next);
                }
                whole(&source[step * by_step..])
            });
            for (half, target) in targets.iter_mut().enumerate() {
                let numbers: [u32; LINES] = std::array::from_fn(|at| {
                    joined(first[half * LINES + at], second[half * LINES + at])
                });
                target.as_chunks_mut().0[pair] = numbers;
            }
        }
    }

    /// Lays out one tile.
    #[inline(always)]
    fn lay_out(&mut self, line: usize, tile: usize) {
        let Matrix {
            elements,
            lines: (lines, by_line),
            steps: (steps, by_step),
        } = *self.matrix;
        let lines = LINES.min(lines - line);
        let step = 2 * PAIRS * tile;
        let steps = (2 * PAIRS).min(steps - step);
        let source = &elements[line * by_line + step * by_step..];
        let place = self.place(line, tile);
        let (targets, _) = self.block.as_chunks_mut::<TILE>();
        let (target, _) = targets[place].as_chunks_mut::<PAIRS>();
        let is_whole = steps == 2 * PAIRS;
        let mut block = [[0; PAIRS]; LINES];
        let mut is_by_lines = true;
        if is_whole && by_step == 1 {
            for (line, block) in block[..lines].iter_mut().enumerate() {
                let line: [u16; 2 * PAIRS] = whole(&source[line * by_line..]);
                *block = std::array::from_fn(|pair| joined(line[2 * pair], line[2 * pair + 1]));
            }
        } else if is_whole && by_line == 1 && lines == LINES {
            is_by_lines = false;
            for (pair, block) in block.iter_mut().enumerate() {
                let [first, second]: [[u16; LINES]; 2] =
                    [2 * pair, 2 * pair + 1].map(|step| whole(&source[step * by_step..]));
                *block = std::array::from_fn(|line| joined(first[line], second[line]));
            }
        } else {
            for (line, block) in block[..lines].iter_mut().enumerate() {
                let bits = |step: usize| {
                    if step < steps {
                        source[line * by_line + step * by_step]
                    } else {
                        0
                    }
                };
                let pair = |pair: usize| joined(bits(2 * pair), bits(2 * pair + 1));
                *block = std::array::from_fn(pair);
            }
        }
        for first in 0..LINES {
            for second in 0..PAIRS {
                target[first][second] = if is_by_lines == self.is_right {
                    block[second][first]
                } else {
                    block[first][second]
                };
            }
        }
    }
}

/// Returns the first elements of a slice. An array has no bounds checks and overlaps nothing, so loops over it become vectors.
#[inline(always)]
fn whole<const N: usize>(elements: &[u16]) -> [u16; N] {
    *expect_some(elements.first_chunk(), "whole lines of a tile")
}

#[inline(always)]
fn joined(first: u16, second: u16) -> u32 {
    u32::from(first) | u32::from(second) << 16
}
