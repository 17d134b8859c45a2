//! Convolutions whose groups have one feature each. They run over the neighbouring features of a position, without a
//! matrix product. The order of the additions depends on shapes alone.

#![allow(
    clippy::inline_always,
    reason = "only what is inlined is compiled for the wide instruction sets"
)]

use smallvec::SmallVec;

use super::evaluation::{Problem, WindowAxis};
use crate::base::array::{give_back, reused};
use crate::base::instructions::arch;
use crate::base::threads;
use crate::primitives::dot::matrix_product::{Factor, PARALLEL};

/// The number of sums into which the rows of a kernel's gradient are divided.
const SUMS: usize = 16;

/// The number of terms that are added before their sum is added to a sum of such sums.
const TERMS: usize = 64;

/// The number of features that are computed at once. They are independent sums, which the processor adds in parallel.
const LANES: usize = 64;

/// The fraction of [`PARALLEL`] for which several threads are used: these multiplications take longer than those of a
/// matrix product.
const SHARE: usize = 4;

/// A term of a sum: the offset of a run in the input, and the offset of its factors in the kernel.
type Term = (usize, usize);

impl<T: Factor> Problem<'_, T> {
    fn leading(&self) -> (&WindowAxis, &[WindowAxis]) {
        let last = self.axes.len() - 1;
        (&self.axes[last], &self.axes[..last])
    }

    /// Returns the positions of a row on the leading axes, and its position on the outer axis.
    fn place(&self, mut line: usize) -> (SmallVec<[usize; 2]>, usize) {
        let (_, leading) = self.leading();
        let mut rows: SmallVec<[usize; 2]> = leading.iter().map(|_| 0).collect();
        for (row, axis) in rows.iter_mut().zip(leading).rev() {
            *row = line % axis.rows;
            line /= axis.rows;
        }
        (rows, line)
    }

    /// Calls `visit` for each element on the leading axes that is on the axes, with its offset in the input and its
    /// number among all elements on the leading axes.
    #[inline(always)]
    fn each_leading(&self, line: usize, mut visit: impl FnMut(usize, usize)) {
        let (_, leading) = self.leading();
        let (rows, outer) = self.place(line);
        let count: usize = leading.iter().map(|axis| axis.elements).product();
        for number in 0..count {
            let mut rest = number;
            let axes = leading.iter().zip(&rows).rev();
            let offset =
                axes.into_iter()
                    .try_fold(outer * self.outer_stride, |offset, (axis, &row)| {
                        let element = rest % axis.elements;
                        rest /= axis.elements;
                        Some(offset + axis.position(row, element)? * axis.stride)
                    });
            if let Some(offset) = offset {
                visit(offset, number);
            }
        }
    }

    fn share_lines<P: Send>(&self, parts: Vec<P>, run: impl Fn(P) + Sync) {
        if self.work() < PARALLEL / SHARE {
            parts.into_iter().for_each(run);
        } else {
            threads::run_parts(parts, run);
        }
    }

    /// Returns the number of lines of rows: all rows at one position on all axes but the last.
    fn line_count(&self) -> usize {
        self.rows() / self.leading().0.rows
    }
}

/// Returns the range of `count` numbers `i` for which `start + i · step` is at least 0 and less than `length`.
fn inside(start: isize, step: usize, count: usize, length: usize) -> std::ops::Range<usize> {
    let first = start.min(0).unsigned_abs().div_ceil(step);
    let room = (length.cast_signed() - start).max(0).cast_unsigned();
    let end = room.div_ceil(step).min(count);
    first.min(end)..end
}

/// Multiplies windows by the kernel `[space…, features]`. The result is `[batch, space…, features]`.
pub(super) fn convolve<T: Factor>(problem: &Problem<'_, T>, target: &mut [T]) {
    let (last, _) = problem.leading();
    let line = last.rows * problem.features;
    let lines = problem.line_count();
    let each = lines.div_ceil(2 * SUMS);
    let parts = target.chunks_mut(each * line).enumerate().collect();
    problem.share_lines(parts, |(part, target): (usize, &mut [T])| {
        arch().dispatch(|| {
            let mut terms = Terms::default();
            for (number, target) in target.chunks_exact_mut(line).enumerate() {
                convolve_line(problem, part * each + number, target, &mut terms);
            }
        });
    });
}

/// The terms of the windows of a line.
#[derive(Default)]
struct Terms {
    /// The terms of a window that is wholly inside of the last axis, relative to the window's position.
    inner: Vec<Term>,
    /// The terms of a window that is partly outside.
    edge: Vec<Term>,
}

#[inline(always)]
fn convolve_line<T: Factor>(
    problem: &Problem<'_, T>,
    line: usize,
    target: &mut [T],
    terms: &mut Terms,
) {
    let (last, _) = problem.leading();
    let features = problem.features;
    terms.inner.clear();
    problem.each_leading(line, |offset, number| {
        for element in 0..last.elements {
            let kernel = (number * last.elements + element) * features;
            terms
                .inner
                .push((offset + element * last.element_step * last.stride, kernel));
        }
    });
    for (row, target) in target.chunks_exact_mut(features).enumerate() {
        let start = last.start(row);
        let range = inside(start, last.element_step, last.elements, last.length);
        if range.len() == last.elements {
            let at = start.cast_unsigned() * last.stride;
            sum_of_products(problem, &terms.inner, at, target);
            continue;
        }
        terms.edge.clear();
        problem.each_leading(line, |offset, number| {
            for element in range.clone() {
                let position = start + (element * last.element_step).cast_signed();
                let kernel = (number * last.elements + element) * features;
                terms
                    .edge
                    .push((offset + position.cast_unsigned() * last.stride, kernel));
            }
        });
        sum_of_products(problem, &terms.edge, 0, target);
    }
}

/// Writes, for each feature, the sum of the products of the terms. `at` is added to the offsets in the input.
#[inline(always)]
fn sum_of_products<T: Factor>(
    problem: &Problem<'_, T>,
    terms: &[Term],
    at: usize,
    target: &mut [T],
) {
    let mut done = 0;
    done = lanes::<T, LANES>(problem, terms, at, target, done);
    done = lanes::<T, 16>(problem, terms, at, target, done);
    done = lanes::<T, 4>(problem, terms, at, target, done);
    lanes::<T, 1>(problem, terms, at, target, done);
}

/// Writes the sums of products of whole blocks of `N` features from feature `done` on. Returns the number of features
/// that are done.
#[inline(always)]
fn lanes<T: Factor, const N: usize>(
    problem: &Problem<'_, T>,
    terms: &[Term],
    at: usize,
    target: &mut [T],
    mut done: usize,
) -> usize {
    while done + N <= target.len() {
        let mut sums = [T::default(); N];
        for &(input, kernel) in terms {
            let input = &problem.input[input + at + done..][..N];
            let kernel = &problem.kernel[kernel + done..][..N];
            for lane in 0..N {
                sums[lane] = sums[lane].plus_product(input[lane], kernel[lane]);
            }
        }
        target[done..done + N].copy_from_slice(&sums);
        done += N;
    }
    done
}

/// Multiplies each element of the windows by the kernel `[outer, space…, features]` and sums over the rows. The result
/// is `[space…, features]`: the gradient with respect to the kernel of a convolution.
pub(super) fn kernel_gradient<T: Factor>(problem: &Problem<'_, T>, target: &mut [T]) {
    let lines = problem.line_count();
    let each = lines.div_ceil(SUMS);
    let length = target.len();
    let mut others = reused::<T>(length * (lines.div_ceil(each) - 1));
    let targets = std::iter::once(&mut *target).chain(others.chunks_mut(length));
    problem.share_lines(
        targets.enumerate().collect(),
        |(part, target): (usize, &mut [T])| {
            target.fill(T::default());
            arch().dispatch(|| {
                for line in part * each..((part + 1) * each).min(lines) {
                    add_line(problem, line, target);
                }
            });
        },
    );
    for other in others.chunks_exact(length) {
        for (sum, &term) in target.iter_mut().zip(other) {
            *sum = sum.plus(term);
        }
    }
    give_back(others);
}

/// Adds the products of a line of rows to the result.
#[inline(always)]
fn add_line<T: Factor>(problem: &Problem<'_, T>, line: usize, target: &mut [T]) {
    let (last, _) = problem.leading();
    let features = problem.features;
    problem.each_leading(line, |offset, number| {
        for element in 0..last.elements {
            let start = last.base + (element * last.element_step).cast_signed();
            let range = inside(start, last.row_step, last.rows, last.length);
            let target = &mut target[(number * last.elements + element) * features..][..features];
            let mut row = range.start;
            while row < range.end {
                let count = TERMS.min(range.end - row);
                let input = start + (row * last.row_step).cast_signed();
                let input = offset + input.cast_unsigned() * last.stride;
                let steps = Steps {
                    input,
                    kernel: (line * last.rows + row) * features,
                    input_step: last.row_step * last.stride,
                    count,
                };
                let mut done = 0;
                done = steps.add::<T, LANES>(problem, target, done);
                done = steps.add::<T, 16>(problem, target, done);
                done = steps.add::<T, 4>(problem, target, done);
                steps.add::<T, 1>(problem, target, done);
                row += count;
            }
        }
    });
}

/// Terms at equal distances: the offsets of the first term, and the number of terms.
struct Steps {
    input: usize,
    kernel: usize,
    input_step: usize,
    count: usize,
}

impl Steps {
    /// Adds the sums of products of whole blocks of `N` features from feature `done` on. Returns the number of features
    /// that are done.
    #[inline(always)]
    fn add<T: Factor, const N: usize>(
        &self,
        problem: &Problem<'_, T>,
        target: &mut [T],
        mut done: usize,
    ) -> usize {
        let features = target.len();
        while done + N <= features {
            let mut sums = [T::default(); N];
            for term in 0..self.count {
                let input = &problem.input[self.input + term * self.input_step + done..][..N];
                let kernel = &problem.kernel[self.kernel + term * features + done..][..N];
                for lane in 0..N {
                    sums[lane] = sums[lane].plus_product(input[lane], kernel[lane]);
                }
            }
            for (target, &sum) in target[done..].iter_mut().zip(&sums) {
                *target = target.plus(sum);
            }
            done += N;
        }
        done
    }
}
