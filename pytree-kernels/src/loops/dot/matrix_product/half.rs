//! Matrix products of half-precision floats, which lay out and multiply one block of the operands after the other.
//!
//! No operand is widened as a whole. The terms of an element are added in f32, and neither the layout of an operand nor the number of
//! threads changes a bit. A sum is rounded to the half-precision type once, at its end.

use std::marker::PhantomData;

use smallvec::{SmallVec, smallvec};

use super::gemm::gemm_f32_product;
use super::loops::Loops;
use super::stored::{Stored, Write};
use crate::base::array::{give_back, reused};
use crate::base::dtype::ArrayElement;
use crate::base::instructions::{leaf, load};
use crate::base::target::Target;

/// The most rows, columns and terms of a block. All blocks of a product fit into a few megabytes.
const ROWS: usize = 512;
const COLUMNS: usize = 512;
const DEPTH: usize = 512;

/// The most blocks of an operand that are kept until they are multiplied again.
const KEPT: usize = 8;

/// A way to lay out blocks of the operands and to multiply them.
pub(super) trait Blocks {
    /// The elements of an operand, or their bits.
    type Source;

    /// The elements of a block.
    type Element: ArrayElement;

    /// The lengths of a block are multiples of this number.
    const UNIT: usize;

    /// Lays out rows of the left operand.
    fn lay_out_left(matrix: &Matrix<'_, Self::Source>, block: &mut [Self::Element]);

    /// Lays out columns of the right operand.
    fn lay_out_right(matrix: &Matrix<'_, Self::Source>, block: &mut [Self::Element]);

    /// Multiplies two blocks with numbers of rows, columns and terms. The sums are in row-major order.
    fn multiply(
        lengths: [usize; 3],
        left: &[Self::Element],
        right: &[Self::Element],
        sums: &mut [f32],
        write: Write,
    );
}

/// Rows of the left operand, or columns of the right one.
pub(super) struct Matrix<'a, S> {
    pub(super) elements: &'a [S],
    /// The number of lines, and the distance between neighbouring lines.
    pub(super) lines: (usize, usize),
    /// The number of elements of a line, and the distance between neighbouring elements.
    pub(super) steps: (usize, usize),
}

/// Writes a matrix product to `target`.
pub(super) fn half_product<B: Blocks, E: Stored<Sum = f32>>(
    loops: &Loops,
    left: &[B::Source],
    right: &[B::Source],
    mut target: Target<'_, E>,
    write: Write,
) {
    let Loops {
        rows,
        columns,
        depth,
        ..
    } = *loops;
    let padded = |length: usize| length.next_multiple_of(B::UNIT);
    let [height, width, steps] = [(rows, ROWS), (columns, COLUMNS), (depth, DEPTH)]
        .map(|(axis, most)| padded(axis.length).min(most));
    let [down, across, deep] = [(rows, ROWS), (columns, COLUMNS), (depth, DEPTH)]
        .map(|(axis, most)| axis.length.div_ceil(most));
    // The blocks of the axis of the inner loop are used again for each block of the outer one.
    let are_rows_outside = down > across;
    let [left_uses, right_uses] = if are_rows_outside {
        [(deep, across), (across * deep, down)]
    } else {
        [(down * deep, across), (deep, down)]
    };
    let mut lefts = Kept::<B::Element>::new(height * steps, left_uses);
    let mut rights = Kept::<B::Element>::new(steps * width, right_uses);
    let mut sums = reused::<f32>(height * width);
    for block in 0..down * across {
        let (row, column) = if are_rows_outside {
            (block / across, block % across)
        } else {
            (block % down, block / down)
        };
        let (row, column) = (row * ROWS, column * COLUMNS);
        let rows_here = ROWS.min(rows.length - row);
        let columns_here = COLUMNS.min(columns.length - column);
        for step in (0..depth.length).step_by(DEPTH) {
            let steps_here = DEPTH.min(depth.length - step);
            let place = |line: usize, most: usize| line / most * deep + step / DEPTH;
            let left = lefts.block(place(row, ROWS), |block| {
                let matrix = Matrix {
                    elements: &left[row * rows.left + step * depth.left..],
                    lines: (rows_here, rows.left),
                    steps: (steps_here, depth.left),
                };
                B::lay_out_left(&matrix, block);
            });
            let right = rights.block(place(column, COLUMNS), |block| {
                let matrix = Matrix {
                    elements: &right[step * depth.right + column * columns.right..],
                    lines: (columns_here, columns.right),
                    steps: (steps_here, depth.right),
                };
                B::lay_out_right(&matrix, block);
            });
            let lengths = [padded(rows_here), padded(columns_here), steps_here];
            let write = if step == 0 {
                Write::Overwrite
            } else {
                Write::Add
            };
            B::multiply(lengths, left, right, &mut sums, write);
        }
        let first = row * rows.result + column * columns.result;
        let lines = sums.chunks_exact(padded(columns_here));
        for (at, sums) in (0..rows_here).zip(lines) {
            let target = target.from(first + at * rows.result);
            write.sums(&sums[..columns_here], target, columns.result);
        }
    }
    lefts.give_back();
    rights.give_back();
    give_back(sums);
}

/// Blocks of an operand that are laid out. Some are kept until they are used again.
struct Kept<E> {
    elements: Vec<E>,
    length: usize,
    /// For each place of a block in the memory, the block that is there.
    blocks: SmallVec<[Option<usize>; KEPT]>,
}

impl<E: ArrayElement> Kept<E> {
    /// Makes room for blocks of a length. A block is used a number of times, each time after the same number of blocks.
    fn new(length: usize, (distance, times): (usize, usize)) -> Self {
        let count = if times > 1 && distance <= KEPT {
            distance
        } else {
            1
        };
        Self {
            elements: reused(length * count),
            length,
            blocks: smallvec![None; count],
        }
    }

    /// Returns a block, and lays it out if it is not there.
    fn block(&mut self, block: usize, lay_out: impl FnOnce(&mut [E])) -> &[E] {
        let place = block % self.blocks.len();
        let elements = &mut self.elements[place * self.length..][..self.length];
        if self.blocks[place].replace(block) != Some(block) {
            lay_out(elements);
        }
        elements
    }

    fn give_back(self) {
        give_back(self.elements);
    }
}

/// The blocks are widened, and the kernels of f32 multiply them. They have whole multiples of 16 rows and columns and at most
/// [`DEPTH`] terms, for which all kernels of the crate `gemm` add in one order.
pub(super) struct Widened<E>(PhantomData<E>);

impl<E: Stored<Sum = f32>> Blocks for Widened<E> {
    type Source = E;
    type Element = f32;

    const UNIT: usize = 16;

    fn lay_out_left(matrix: &Matrix<'_, E>, block: &mut [f32]) {
        let width = matrix.steps.0;
        widen(matrix.elements, matrix.lines, matrix.steps, block, width);
    }

    fn lay_out_right(matrix: &Matrix<'_, E>, block: &mut [f32]) {
        let width = matrix.lines.0.next_multiple_of(Self::UNIT);
        widen(matrix.elements, matrix.steps, matrix.lines, block, width);
    }

    fn multiply(
        [rows, columns, steps]: [usize; 3],
        left: &[f32],
        right: &[f32],
        sums: &mut [f32],
        write: Write,
    ) {
        let block = Loops::single([rows, columns, steps], [steps, 1], [columns, 1], columns);
        gemm_f32_product(&block, left, right, Target::new(sums), write);
    }
}

/// The number of rows and columns of a matrix that are widened at once.
const BLOCK: usize = 16;

/// Widens a matrix, whose rows then have `width` elements. `rows` and `columns` are their numbers and distances.
fn widen<E: Stored<Sum = f32>>(
    source: &[E],
    (rows, down): (usize, usize),
    (columns, across): (usize, usize),
    target: &mut [f32],
    width: usize,
) {
    for first in (0..rows).step_by(BLOCK) {
        let height = BLOCK.min(rows - first);
        let target = &mut target[first * width..];
        let source = &source[first * down..];
        if across == 1 {
            for (row, target) in (0..height).zip(target.chunks_mut(width)) {
                E::widen(&source[row * down..][..columns], &mut target[..columns]);
            }
        } else {
            turn(source, (height, down), (columns, across), target, width);
        }
    }
}

/// Widens at most [`BLOCK`] rows, whose elements are not neighbours.
fn turn<E: Stored<Sum = f32>>(
    source: &[E],
    (height, down): (usize, usize),
    (columns, across): (usize, usize),
    target: &mut [f32],
    width: usize,
) {
    leaf! {
        let mut start = 0;
        while start < columns {
            let count = BLOCK.min(columns - start);
            let mut block = [[E::default(); BLOCK]; BLOCK];
            for column in 0..count {
                let source = &source[(start + column) * across..];
                if down == 1 && source.len() >= BLOCK {
                    block[column] = load(source, 0);
                } else {
                    for row in 0..height {
                        block[column][row] = source[row * down];
                    }
                }
            }
            for row in 0..height {
                let mut numbers = [0.0; BLOCK];
                for column in 0..BLOCK {
                    numbers[column] = block[column][row].wide();
                }
                let target = &mut target[row * width + start..][..count];
                for column in 0..count {
                    target[column] = numbers[column];
                }
            }
            start += BLOCK;
        }
    }
}
