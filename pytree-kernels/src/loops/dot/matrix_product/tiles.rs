//! Blocks of bf16 for the instructions of x86-64 that multiply pairs of numbers: those for matrices (AMX), or those for vectors
//! (`AVX512_BF16`). Both treat a subnormal factor or sum as 0.

mod instructions;
mod layout;
mod matrices;
mod vectors;

use std::marker::PhantomData;

use half::bf16;
use pytree_base::bug::expect_some;

use self::instructions::{Instructions, LINES, Lines, PAIRS, Sums, TILE};
use self::layout::WholeTile;
use super::half::{Blocks, Matrix, half_product};
use super::loops::Loops;
use super::stored::Write;
use crate::base::target::Target;

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
        TileWriter {
            matrix,
            block,
            is_right: false,
        }
        .run();
    }

    fn lay_out_right(matrix: &Matrix<'_, u16>, block: &mut [u32]) {
        TileWriter {
            matrix,
            block,
            is_right: true,
        }
        .run();
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
struct TileWriter<'a> {
    matrix: &'a Matrix<'a, u16>,
    block: &'a mut [u32],
    is_right: bool,
}

impl TileWriter<'_> {
    fn run(mut self) {
        let ((lines, by_line), (steps, _)) = (self.matrix.lines, self.matrix.steps);
        let tiles = steps.div_ceil(2 * PAIRS);
        let lines = (0..lines).step_by(LINES);
        if by_line > 1 {
            return lines.for_each(|line| (0..tiles).for_each(|tile| self.lay_out(line, tile)));
        }
        // A cache line has elements of many lines, so all lines at some steps are laid out before the next steps.
        for tile in 0..tiles {
            lines.clone().for_each(|line| self.lay_out(line, tile));
        }
    }

    /// Returns the position of the tile with a line.
    fn place(&self, line: usize, tile: usize) -> usize {
        line / LINES * self.matrix.steps.0.div_ceil(2 * PAIRS) + tile
    }

    /// Lays out one tile.
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
        let target = expect_some(target.first_chunk_mut(), "a whole tile");
        let are_lines = by_step == 1;
        if steps == 2 * PAIRS && lines == LINES && (are_lines || by_line == 1) {
            let tile = WholeTile {
                elements: source,
                stride: if are_lines { by_line } else { by_step },
                is_by_lines: are_lines,
                is_requested: are_lines || line.is_multiple_of(2 * LINES),
            };
            return tile.lay_out(target, !self.is_right);
        }
        let bits = |line: usize, step: usize| {
            if line < lines && step < steps {
                source[line * by_line + step * by_step]
            } else {
                0
            }
        };
        let pair = |line, pair: usize| {
            let (first, second) = (bits(line, 2 * pair), bits(line, 2 * pair + 1));
            u32::from(first) | u32::from(second) << 16
        };
        let is_right = self.is_right;
        let number = |row, column| {
            if is_right {
                pair(column, row)
            } else {
                pair(row, column)
            }
        };
        for (row, numbers) in target.iter_mut().enumerate() {
            for (column, target) in numbers.iter_mut().enumerate() {
                *target = number(row, column);
            }
        }
    }
}
