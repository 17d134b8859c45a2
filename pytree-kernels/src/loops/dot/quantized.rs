//! Products whose right operand is 8-bit integers times scales: weights that are quantized.
//!
//! With few rows, the integers are widened and scaled in registers. Otherwise, they are widened and scaled one block of columns at a
//! time, and the kernels of f32 multiply the block. So no operand is widened as a whole, and the bits are those of the product with the
//! widened operand.

use std::ops::Range;
use std::sync::Arc;

use super::general::DotGeneral;
use super::matrix_product::{Kernel, Loops, ScaledProduct, multiply_then, scale};
use super::operands::DotOperands;
use crate::base::array::{Array, give_back, reused};
use crate::base::instructions::have_fused;
use crate::base::prefetch::LINE;
use crate::base::target::Target;
use crate::base::threads;

/// The least number of columns of a block, of which the last one may have nearly twice as many. With more than 256 columns, their number
/// has no influence on the kernel.
const COLUMNS: usize = 288;

/// The threads divide the columns at multiples of this number if there are few rows: the integers of a cache line.
const COLUMNS_OF_FEW_ROWS: usize = LINE;

impl DotGeneral {
    /// Returns the product of f32 numbers with `integers · scales`. The scales have the axes of the integers, with length 1 along all free
    /// axes, or along all contracted ones.
    ///
    /// There are no batch axes, and the contracted axes of the integers are the first or the last ones, in their order.
    pub fn evaluate_quantized(
        &self,
        left: Arc<Array>,
        integers: Arc<Array>,
        scales: &Array,
    ) -> Array {
        self.multiply_quantized(left, integers, scales, threads::count())
    }

    /// Computes the product with at most `threads` threads.
    fn multiply_quantized(
        &self,
        left: Arc<Array>,
        integers: Arc<Array>,
        scales: &Array,
        threads: usize,
    ) -> Array {
        let scales = Scales {
            numbers: scales.elements(),
            are_of_terms: self
                .contract
                .1
                .iter()
                .any(|&axis| scales.shape()[axis] != 1),
        };
        let operands = self.operands(left, integers);
        let mut target = reused::<f32>(operands.shape.iter().product());
        match &operands.loops {
            Some(loops) => quantized(loops, &operands, scales, &mut target, threads),
            None => target.fill(0.0),
        }
        Array::new(&operands.shape, target)
    }
}

/// One scale for each column of the right operand or for each term of a sum, or a single one.
#[derive(Clone, Copy)]
struct Scales<'a> {
    numbers: &'a [f32],
    are_of_terms: bool,
}

impl<'a> Scales<'a> {
    /// Returns the scales of some columns at a term of their sums: one for each column, or one for all.
    #[inline(always)]
    fn of(self, term: usize, columns: Range<usize>) -> &'a [f32] {
        match (self.numbers, self.are_of_terms) {
            ([_], _) => self.numbers,
            (_, true) => &self.numbers[term..=term],
            (_, false) => &self.numbers[columns],
        }
    }
}

/// Writes the product to `target`, with at most `threads` threads if there is enough work.
#[allow(
    unsafe_code,
    reason = "parts of the product write different columns of the same memory"
)]
fn quantized(
    loops: &Loops,
    operands: &DotOperands,
    scales: Scales<'_>,
    target: &mut [f32],
    threads: usize,
) {
    let (left, integers) = (operands.left.elements(), operands.right.elements());
    let columns = loops.columns.length;
    let has_few_rows =
        loops.kernel() == Kernel::Thin && loops.extents().0 <= columns && have_fused();
    let unit = if has_few_rows {
        COLUMNS_OF_FEW_ROWS
    } else {
        COLUMNS
    };
    let repeated = match *scales.numbers {
        [scale] if has_few_rows => vec![scale; columns],
        _ => Vec::new(),
    };
    let scales = if repeated.is_empty() {
        scales
    } else {
        Scales {
            numbers: &repeated,
            are_of_terms: false,
        }
    };
    let blocks = (columns / unit).max(1);
    let is_divided = threads::are_worth(loops.nanoseconds());
    let threads = if is_divided { threads.min(blocks) } else { 1 };
    let block = |first: usize, end: usize| Block {
        loops,
        integers,
        scales,
        columns: first * unit..if end == blocks { columns } else { end * unit },
    };
    let mut target = Target::new(target);
    if has_few_rows && threads > 1 {
        let whole = block(0, blocks).few_rows(left, 0, 0);
        match whole.parts(loops, target, threads) {
            Ok(parts) => return threads::run_parts(parts, |part| part(None)),
            Err(all) => target = all,
        }
    }
    let parts = (0..threads).map(|part| {
        let blocks = part * blocks / threads..(part + 1) * blocks / threads;
        // SAFETY: each part writes the columns of its blocks only.
        (blocks, unsafe { target.shared() })
    });
    threads::run_parts(parts.collect(), |(part, mut target)| {
        if has_few_rows {
            return block(part.start, part.end).multiply_few_rows(left, &mut target);
        }
        for at in part {
            block(at, at + 1).multiply(left, &mut target);
        }
    });
}

/// Some columns of the right operand.
struct Block<'a> {
    loops: &'a Loops,
    integers: &'a [i8],
    scales: Scales<'a>,
    columns: Range<usize>,
}

impl<'a> Block<'a> {
    /// Multiplies a few rows.
    fn multiply_few_rows(&self, left: &[f32], target: &mut Target<'_, f32>) {
        let mut loops = self.loops.clone();
        loops.columns.length = self.columns.len();
        let start = self.columns.start * loops.columns.result;
        loops.run(|[l, r, t]| {
            let target = target.from(start + t);
            self.few_rows(left, l, r).multiply(&loops, target);
        });
    }

    /// Returns the factors of the columns, from a position in the left operand and one in the right operand on.
    fn few_rows(&self, left: &'a [f32], l: usize, r: usize) -> ScaledProduct<'a> {
        let Scales {
            numbers,
            are_of_terms,
        } = self.scales;
        ScaledProduct {
            left: &left[l..],
            integers: &self.integers[self.columns.start * self.loops.columns.right + r..],
            scales: if are_of_terms {
                numbers
            } else {
                &numbers[self.columns.clone()]
            },
            are_of_steps: are_of_terms,
        }
    }

    fn multiply(&self, left: &[f32], target: &mut Target<'_, f32>) {
        let depth = self.loops.depth.length;
        let mut numbers = reused(self.columns.len() * depth);
        let mut loops = self.loops.clone();
        loops.columns.length = self.columns.len();
        // The block has the layout of the operand.
        (loops.columns.right, loops.depth.right) = match self.loops.depth.right {
            1 => (depth, 1),
            _ => (1, self.columns.len()),
        };
        self.widen(&mut numbers);
        let target = target.from(self.columns.start * loops.columns.result);
        multiply_then(&loops, left, &numbers, target, 1, None);
        give_back(numbers);
    }

    /// Writes the integers times their scales.
    fn widen(&self, numbers: &mut [f32]) {
        let Self {
            loops,
            integers,
            scales,
            columns,
        } = self;
        let (depth, across) = (loops.depth, loops.columns.right);
        let (count, length) = (columns.len(), depth.length);
        if depth.right == 1 {
            for (column, numbers) in columns.clone().zip(numbers.chunks_exact_mut(length)) {
                let line = &integers[column * across..][..length];
                let of_line = if scales.are_of_terms {
                    scales.numbers
                } else {
                    scales.of(0, column..column + 1)
                };
                scale(line, of_line, numbers);
            }
            return;
        }
        for (term, numbers) in numbers.chunks_exact_mut(count).enumerate() {
            let start = term * depth.right + columns.start * across;
            let scales = scales.of(term, columns.clone());
            scale(&integers[start..][..count], scales, numbers);
        }
    }
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;

    /// Returns numbers between -1 and 1 without a pattern.
    fn numbers(count: usize) -> Vec<f32> {
        (0..count)
            .map(|at| ((at * 7919 + 13) % 1009) as f32 / 504.5 - 1.0)
            .collect()
    }

    fn bits(array: &Array) -> Vec<u32> {
        let numbers = array.elements::<f32>().iter();
        numbers.map(|number| number.to_bits()).collect()
    }

    fn array<T: crate::base::dtype::ArrayElement>(shape: &[usize], elements: Vec<T>) -> Arc<Array> {
        Arc::new(Array::new(shape, elements))
    }

    #[test]
    fn product_has_the_bits_of_the_widened_operand() {
        for [rows, depth, columns] in [
            [1, 768, 3000],
            [1, 70, 130],
            [1, 17, 600],
            [2, 65, 97],
            [3, 129, 83],
            [5, 200, 700],
            [8, 64, 65],
            [7, 300, 1],
            [300, 65, 3],
            [40, 33, 1100],
            [100, 64, 20],
            [3, 1, 9],
            [1, 0, 5],
            [0, 5, 70],
            [2, 70, 0],
        ] {
            let left = numbers(rows * depth);
            let turned = (0..depth * rows).map(|at| left[at % rows * depth + at / rows]);
            let turned = array(&[depth, rows], turned.collect());
            let left = array(&[rows, depth], left);
            for is_transposed in [false, true] {
                let shape = if is_transposed {
                    [columns, depth]
                } else {
                    [depth, columns]
                };
                let axis = usize::from(is_transposed);
                let dot = |left_axis| DotGeneral {
                    contract: (smallvec![left_axis], smallvec![axis]),
                    batch: Default::default(),
                };
                let integers: Vec<i8> = (i8::MIN..=i8::MAX)
                    .cycle()
                    .step_by(31)
                    .take(depth * columns)
                    .collect();
                for are_of_terms in [None, Some(false), Some(true)] {
                    let mut of_scales = [1, 1];
                    match are_of_terms {
                        None => {}
                        Some(true) => of_scales[axis] = depth,
                        Some(false) => of_scales[1 - axis] = columns,
                    }
                    let scales = numbers(of_scales.iter().product());
                    let widened = integers.iter().enumerate().map(|(at, &integer)| {
                        let place = [at / shape[1], at % shape[1]];
                        let place = place[0].min(of_scales[0] - 1) + place[1].min(of_scales[1] - 1);
                        f32::from(integer) * scales[place]
                    });
                    let widened = array(&shape, widened.collect());
                    let integers = array(&shape, integers.clone());
                    let scales = array(&of_scales, scales);
                    for (left_axis, left) in [(1, &left), (0, &turned)] {
                        let dot = dot(left_axis);
                        let expected = bits(&dot.evaluate(Arc::clone(left), Arc::clone(&widened)));
                        for threads in [1, 2, 3] {
                            let (left, integers) = (Arc::clone(left), Arc::clone(&integers));
                            let found = dot.multiply_quantized(left, integers, &scales, threads);
                            assert_eq!(
                                bits(&found),
                                expected,
                                "{rows} {depth} {columns} {is_transposed} {are_of_terms:?} {left_axis} {threads}"
                            );
                        }
                    }
                }
            }
        }
    }
}
