//! Convolutions as matrix products of windows. Blocks of windows are copied to a buffer that fits the cache, and each
//! block is multiplied by the kernel. The blocks depend only on shapes, so the number of threads does not change the
//! bits of the result.

use std::ops::Range;

use bytemuck::Pod;

use super::problem::{Operands, Problem};
use super::rows::Line;
use crate::base::array::{give_back, reused};
use crate::base::target::{Target, Then, share_rows_then};
use crate::base::threads;
use crate::loops::dot::matrix_product::{Factor, Loops, PER_NANOSECOND, Write};

/// The number of bytes of a block of windows, about half of a second-level cache.
const BLOCK: usize = 512 << 10;

/// The greatest number of elements of a row that are copied at once. A single run may be longer.
const WIDTH: usize = 1024;

/// The number of parts into which the result or the summed rows are divided.
const PARTS: usize = 8;

/// The least number of rows in a part.
const FEWEST: usize = 64;

impl Problem {
    /// Divides the elements of a row into ranges that take about `width` elements of the buffer each.
    fn ranges(&self, width: usize) -> Vec<Range<usize>> {
        let elements = self.elements();
        let each = if elements * self.inner <= width {
            elements
        } else {
            (width / 2).div_ceil(self.inner)
        };
        let end = |start: usize| (start + each).min(elements);
        (0..elements)
            .step_by(each)
            .map(|start| start..end(start))
            .collect()
    }

    /// Divides the elements of a row into blocks, and each block into lines.
    fn blocks(&self) -> Vec<(Range<usize>, Vec<Line>)> {
        let ranges = self.ranges(WIDTH).into_iter();
        ranges
            .map(|range| (range.clone(), self.lines(&range)))
            .collect()
    }

    /// Estimates the nanoseconds that one thread takes.
    fn nanoseconds(&self) -> usize {
        self.work() / PER_NANOSECOND
    }

    fn of_group(&self) -> usize {
        self.features / self.groups
    }
}

/// Returns the number of rows of `width` elements with a number of bytes in a block.
fn block_rows(bytes: usize, width: usize) -> usize {
    (BLOCK / bytes / width).max(FEWEST)
}

/// Returns the number of rows that one thread computes at once. An element has a number of bytes.
pub(super) fn rows_of_part(problem: &Problem, bytes: usize) -> usize {
    let width = problem.ranges(WIDTH)[0].len() * problem.inner;
    let rows = problem.rows();
    block_rows(bytes, width)
        .min(rows.div_ceil(PARTS))
        .next_multiple_of(FEWEST)
        .min(rows)
}

/// Multiplies the windows by the kernel `[space…, in, out]`, and continues with parts of the result. Each row is a window. The result is
/// `[batch, space…, out]`.
pub(super) fn windows_by_kernel<T: Factor + Pod>(
    problem: &Problem,
    operands: Operands<'_, T>,
    target: Target<'_, T>,
    then: Option<Then<'_>>,
) {
    let blocks = problem.blocks();
    let width = blocks[0].0.len() * problem.inner;
    let (features, columns) = (problem.features, problem.of_group());
    let each = rows_of_part(problem, size_of::<T>());
    share_rows_then(
        problem.nanoseconds(),
        target,
        features,
        each,
        then,
        &|first, target| {
            let count = target.len() / features;
            let mut buffer = reused::<T>(each * width);
            for group in 0..problem.groups {
                for (elements, lines) in &blocks {
                    let width = elements.len() * problem.inner;
                    let windows = &mut buffer[..count * width];
                    problem.pack(
                        operands.input,
                        group * problem.group_stride,
                        first..first + count,
                        lines,
                        windows,
                    );
                    let lengths = [count, columns, width];
                    let loops = Loops::single(lengths, [width, 1], [features, 1], features);
                    let at = group * columns;
                    let kernel = &operands.kernel[elements.start * problem.inner * features + at..];
                    let write = if elements.start == 0 {
                        Write::Overwrite
                    } else {
                        Write::Add
                    };
                    let target = Target::new(&mut target[at..]);
                    T::matrix_product(&loops, windows, kernel, target, write);
                }
            }
            give_back(buffer);
        },
    );
}

/// Multiplies the transpose of the rows by the kernel `[in, space…, out]`. A row has one element of each window. The
/// result is `[space…, batch, out]`. Parts of the rows are summed separately, and these sums are added in order.
pub(super) fn elements_by_kernel<T: Factor + Pod>(
    problem: &Problem,
    operands: Operands<'_, T>,
    target: &mut [T],
) {
    let blocks = problem.blocks();
    let (rows, features) = (problem.rows(), problem.features);
    let sums = PARTS.div_ceil(blocks.len()).min(rows.div_ceil(4 * FEWEST));
    let rows_of_sum = rows.div_ceil(sums);
    let sums = rows.div_ceil(rows_of_sum);
    let length = target.len();
    let mut others = reused::<T>(length * (sums - 1));
    let tile = blocks[0].0.len() * problem.inner * features;
    let targets = std::iter::once(&mut *target).chain(others.chunks_mut(length));
    let mut parts = Vec::new();
    for (sum, target) in targets.enumerate() {
        let rows = sum * rows_of_sum..((sum + 1) * rows_of_sum).min(rows);
        let tiles = target.chunks_mut(tile).zip(&blocks);
        parts.extend(tiles.map(|(target, (_, lines))| (rows.clone(), lines, target)));
    }
    threads::share(problem.nanoseconds(), parts, |(rows, lines, target)| {
        let width = target.len() / features;
        let each = block_rows(size_of::<T>(), width).min(rows.len());
        let mut buffer = reused::<T>(each * width);
        for group in 0..problem.groups {
            for start in rows.clone().step_by(each) {
                let count = each.min(rows.end - start);
                let block = &mut buffer[..count * width];
                problem.pack(
                    operands.input,
                    group * problem.group_stride,
                    start..start + count,
                    lines,
                    block,
                );
                let columns = problem.of_group();
                let lengths = [width, columns, count];
                let loops = Loops::single(lengths, [1, width], [features, 1], features);
                let at = group * columns;
                let kernel = &operands.kernel[start * features + at..];
                let write = if start == rows.start {
                    Write::Overwrite
                } else {
                    Write::Add
                };
                let target = Target::new(&mut target[at..]);
                T::matrix_product(&loops, block, kernel, target, write);
            }
        }
        give_back(buffer);
    });
    for other in others.chunks_exact(length) {
        for (sum, &term) in target.iter_mut().zip(other) {
            *sum = sum.plus(term);
        }
    }
    give_back(others);
}
