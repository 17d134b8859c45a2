//! Depthwise convolutions, in which each group has one feature. Loops over the features of a position compute the sums,
//! without a matrix product. The order of the additions depends only on shapes.

use std::ops::Range;

use smallvec::SmallVec;

use super::problem::{Operands, Problem, WindowAxis};
use crate::base::array::{give_back, reused};
use crate::base::instructions::{leaf_of, store};
use crate::base::threads;
use crate::loops::dot::matrix_product::Factor;
use crate::loops::sliding::inside;

/// The number of partial sums of a kernel's gradient. Each partial sum adds a part of the rows.
const SUMS: usize = 16;

/// The number of terms that are added to a new sum before this sum is added to the result. Short sums reduce rounding
/// errors.
const TERMS: usize = 64;

/// The number of features that are computed together. Their sums are independent, so the processor adds them in
/// parallel.
const LANES: usize = 32;

/// The number of multiplications that one thread does in a nanosecond. They take longer here than in a matrix product.
const PER_NANOSECOND: usize = 12;

/// A term of a sum: the offset of neighbouring features in the input, and the offset of their factors in the kernel.
type Term = (usize, usize);

impl Problem {
    fn leading(&self) -> (&WindowAxis, &[WindowAxis]) {
        let last = self.axes.len() - 1;
        (&self.axes[last], &self.axes[..last])
    }

    /// Returns the positions of a line on the leading axes and on the outer axis. [`line_count`](Self::line_count)
    /// defines lines.
    fn place(&self, mut line: usize) -> (SmallVec<[usize; 2]>, usize) {
        let (_, leading) = self.leading();
        let mut rows: SmallVec<[usize; 2]> = leading.iter().map(|_| 0).collect();
        for (row, axis) in rows.iter_mut().zip(leading).rev() {
            *row = line % axis.rows;
            line /= axis.rows;
        }
        (rows, line)
    }

    /// Finds the positions that the windows of a line read on the leading axes. Skips positions outside of an axis. For
    /// each position, writes two numbers to `found`: the offset in the input, and the index among all positions of a
    /// window on the leading axes.
    fn leading_terms(&self, line: usize, found: &mut Vec<Term>) {
        let (_, leading) = self.leading();
        let (rows, outer) = self.place(line);
        let count: usize = leading.iter().map(|axis| axis.elements).product();
        let offset_of = |number: usize| {
            let mut rest = number;
            let mut axes = leading.iter().zip(&rows).rev();
            axes.try_fold(outer * self.outer_stride, |offset, (axis, &row)| {
                let element = rest % axis.elements;
                rest /= axis.elements;
                Some(offset + axis.position(row, element)? * axis.stride)
            })
        };
        found.clear();
        found.extend((0..count).filter_map(|number| Some((offset_of(number)?, number))));
    }

    /// Estimates the nanoseconds that one thread takes.
    fn nanoseconds_of_lines(&self) -> usize {
        self.work() / PER_NANOSECOND
    }

    /// Returns the number of lines. A line has the rows at one position on all axes except the last.
    fn line_count(&self) -> usize {
        self.rows() / self.leading().0.rows
    }
}

/// Multiplies windows by the kernel `[space…, features]`. The result is `[batch, space…, features]`.
pub(super) fn convolve<T: Factor>(problem: &Problem, operands: Operands<'_, T>, target: &mut [T]) {
    let (last, _) = problem.leading();
    let line = last.rows * problem.features;
    let lines = problem.line_count();
    let each = lines.div_ceil(2 * SUMS);
    threads::share_rows(
        problem.nanoseconds_of_lines(),
        target,
        line,
        each,
        &|first, target| {
            let mut windows = Windows::default();
            for (number, target) in (first..).zip(target.chunks_exact_mut(line)) {
                windows.find(problem, number);
                windows.multiply(operands, target);
            }
        },
    );
}

/// The terms of all windows of a line.
#[derive(Default)]
struct Windows {
    leading: Vec<Term>,
    /// The first terms belong to windows that are wholly inside of the last axis. All these windows share the terms,
    /// which are relative to the position of a window. The other terms belong to windows that are partly outside.
    terms: Vec<Term>,
    /// For each window, the offset of the window in the input, and the range of the window's terms.
    ranges: Vec<(usize, Range<usize>)>,
}

impl Windows {
    /// Finds the terms of the windows of a line.
    fn find(&mut self, problem: &Problem, line: usize) {
        let (last, _) = problem.leading();
        let features = problem.features;
        problem.leading_terms(line, &mut self.leading);
        self.terms.clear();
        self.ranges.clear();
        let kernel = |number: usize, element: usize| (number * last.elements + element) * features;
        for &(offset, number) in &self.leading {
            let term = |element| {
                (
                    offset + element * last.element_step * last.stride,
                    kernel(number, element),
                )
            };
            self.terms.extend((0..last.elements).map(term));
        }
        let whole = 0..self.terms.len();
        for row in 0..last.rows {
            let start = last.start(row);
            let range = inside(start, last.element_step, last.elements, last.length);
            if range.len() == last.elements {
                self.ranges
                    .push((start.cast_unsigned() * last.stride, whole.clone()));
                continue;
            }
            let first = self.terms.len();
            for &(offset, number) in &self.leading {
                let position = |element: usize| {
                    (start + (element * last.element_step).cast_signed()).cast_unsigned()
                };
                let term = |element| {
                    (
                        offset + position(element) * last.stride,
                        kernel(number, element),
                    )
                };
                self.terms.extend(range.clone().map(term));
            }
            self.ranges.push((0, first..self.terms.len()));
        }
    }

    /// Writes the products of a line with the kernel.
    fn multiply<T: Factor>(&self, operands: Operands<'_, T>, target: &mut [T]) {
        let (ranges, terms) = (&self.ranges[..], &self.terms[..]);
        let features = target.len() / ranges.len();
        leaf_of! { T =>
            for window in 0..ranges.len() {
                let (at, range) = &ranges[window];
                let target = &mut target[window * features..][..features];
                let terms = &terms[range.start..range.end];
                let mut done = 0;
                done = sums_of_terms::<T, LANES>(operands, terms, *at, target, done);
                done = sums_of_terms::<T, 8>(operands, terms, *at, target, done);
                sums_of_terms::<T, 1>(operands, terms, *at, target, done);
            }
        }
    }
}

/// Writes sums of products for blocks of `N` features, beginning at feature `done`. `at` is added to the offsets in the
/// input. Returns the first feature that is not computed.
#[inline(always)]
fn sums_of_terms<T: Factor, const N: usize>(
    Operands { input, kernel }: Operands<'_, T>,
    terms: &[Term],
    at: usize,
    target: &mut [T],
    mut done: usize,
) -> usize {
    while done + N <= target.len() {
        let mut sums = [T::default(); N];
        for &(of_input, of_kernel) in terms {
            let input = &input[of_input + at + done..][..N];
            let kernel = &kernel[of_kernel + done..][..N];
            for lane in 0..N {
                sums[lane] = sums[lane].plus_product(input[lane], kernel[lane]);
            }
        }
        store(target, done, sums);
        done += N;
    }
    done
}

/// Multiplies each element of the windows by the kernel `[outer, space…, features]` and sums over the rows. The result
/// is the gradient with respect to the kernel of a convolution: `[space…, features]`.
pub(super) fn kernel_gradient<T: Factor>(
    problem: &Problem,
    operands: Operands<'_, T>,
    target: &mut [T],
) {
    let lines = problem.line_count();
    let each = lines.div_ceil(SUMS);
    let length = target.len();
    let mut others = reused::<T>(length * (lines.div_ceil(each) - 1));
    let targets = std::iter::once(&mut *target).chain(others.chunks_mut(length));
    threads::share(
        problem.nanoseconds_of_lines(),
        targets.enumerate().collect(),
        |(part, target): (usize, &mut [T])| {
            target.fill(T::default());
            let (mut leading, mut sums) = (Vec::new(), Vec::new());
            for line in part * each..((part + 1) * each).min(lines) {
                problem.leading_terms(line, &mut leading);
                sums_of_line(problem, line, &leading, &mut sums);
                add_sums(&sums, operands, problem.features, target);
            }
        },
    );
    for other in others.chunks_exact(length) {
        for (sum, &term) in target.iter_mut().zip(other) {
            *sum = sum.plus(term);
        }
    }
    give_back(others);
}

/// Terms at equal distances. The sum of the terms is added to the result. The fields are the offsets of the first term,
/// the offset of the sum in the result, the distance between terms in the input, and the number of terms. In the
/// kernel, the terms are neighbours.
struct Steps {
    input: usize,
    kernel: usize,
    target: usize,
    input_step: usize,
    count: usize,
}

/// Finds the sums of a line of rows.
fn sums_of_line(problem: &Problem, line: usize, leading: &[Term], sums: &mut Vec<Steps>) {
    let (last, _) = problem.leading();
    let features = problem.features;
    sums.clear();
    for &(offset, number) in leading {
        for element in 0..last.elements {
            let start = last.base + (element * last.element_step).cast_signed();
            let range = inside(start, last.row_step, last.rows, last.length);
            for row in range.clone().step_by(TERMS) {
                let position = start + (row * last.row_step).cast_signed();
                sums.push(Steps {
                    input: offset + position.cast_unsigned() * last.stride,
                    kernel: (line * last.rows + row) * features,
                    target: (number * last.elements + element) * features,
                    input_step: last.row_step * last.stride,
                    count: TERMS.min(range.end - row),
                });
            }
        }
    }
}

/// Adds the sums of a line to the result.
fn add_sums<T: Factor>(
    sums: &[Steps],
    operands: Operands<'_, T>,
    features: usize,
    target: &mut [T],
) {
    leaf_of! { T =>
        for steps in sums {
            let target = &mut target[steps.target..][..features];
            let mut done = 0;
            done = add_steps::<T, LANES>(steps, operands, target, done);
            done = add_steps::<T, 8>(steps, operands, target, done);
            add_steps::<T, 1>(steps, operands, target, done);
        }
    }
}

/// Adds sums of products for blocks of `N` features, beginning at feature `done`. Returns the first feature that is not
/// computed.
#[inline(always)]
fn add_steps<T: Factor, const N: usize>(
    steps: &Steps,
    Operands { input, kernel }: Operands<'_, T>,
    target: &mut [T],
    mut done: usize,
) -> usize {
    let features = target.len();
    while done + N <= features {
        let mut sums = [T::default(); N];
        for term in 0..steps.count {
            let input = &input[steps.input + term * steps.input_step + done..][..N];
            let kernel = &kernel[steps.kernel + term * features + done..][..N];
            for lane in 0..N {
                sums[lane] = sums[lane].plus_product(input[lane], kernel[lane]);
            }
        }
        let target = &mut target[done..done + N];
        for lane in 0..N {
            target[lane] = target[lane].plus(sums[lane]);
        }
        done += N;
    }
    done
}
