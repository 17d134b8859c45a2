//! Products whose right operand is 8-bit integers times scales: weights that are quantized.
//!
//! The integers are widened and scaled one block of columns at a time, and the kernels of f32 multiply the block. So no operand is
//! widened as a whole, and the bits are those of the product with the widened operand.

#![allow(
    clippy::inline_always,
    reason = "only inlined code is compiled for the wide instruction sets"
)]

use std::ops::Range;
use std::sync::Arc;

use super::matrix_product::{Kernel, Loops, multiply_then};
use super::{DotGeneral, DotOperands};
use crate::base::array::{Array, give_back, reused};
use crate::base::instructions::arch;
use crate::base::target::Target;
use crate::base::threads;

/// The least number of columns of a block, of which the last one may have nearly twice as many. With more than 256 columns, their number
/// has no influence on the kernel. With few rows, it has none with more than 64, and the block stays in the caches.
const COLUMNS: usize = 288;
const COLUMNS_OF_FEW_ROWS: usize = 128;

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
            Some(loops) => quantized(loops, &operands, scales, &mut target),
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

/// Writes the product to `target`, with all threads if there is enough work.
#[allow(
    unsafe_code,
    reason = "parts of the product write different columns of the same memory"
)]
fn quantized(loops: &Loops, operands: &DotOperands, scales: Scales<'_>, target: &mut [f32]) {
    let (left, integers) = (operands.left.elements(), operands.right.elements());
    let columns = loops.columns.length;
    let unit = match loops.kernel() {
        Kernel::Thin => COLUMNS_OF_FEW_ROWS,
        _ => COLUMNS,
    };
    let blocks = (columns / unit).max(1);
    let is_divided = threads::are_worth(loops.nanoseconds());
    let threads = if is_divided {
        threads::count().min(blocks)
    } else {
        1
    };
    let target = Target::new(target);
    let parts = (0..threads).map(|part| {
        let blocks = part * blocks / threads..(part + 1) * blocks / threads;
        // SAFETY: each part writes the columns of its blocks only.
        (blocks, unsafe { target.shared() })
    });
    threads::run_parts(parts.collect(), |(part, mut target)| {
        for block in part {
            let end = if block + 1 == blocks {
                columns
            } else {
                (block + 1) * unit
            };
            let block = Block {
                loops,
                integers,
                scales,
                columns: block * unit..end,
            };
            block.multiply(left, &mut target);
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

impl Block<'_> {
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
        arch().dispatch(Widening {
            block: self,
            target: &mut numbers,
        });
        let target = target.from(self.columns.start * loops.columns.result);
        multiply_then(&loops, left, &numbers, target, 1, None);
        give_back(numbers);
    }
}

/// Writes the integers of a block times their scales.
struct Widening<'a> {
    block: &'a Block<'a>,
    target: &'a mut [f32],
}

impl pulp::WithSimd for Widening<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        let Block {
            loops,
            integers,
            scales,
            columns,
        } = self.block;
        let (depth, across) = (loops.depth, loops.columns.right);
        let (count, length) = (columns.len(), depth.length);
        if depth.right == 1 {
            for (column, target) in columns.clone().zip(self.target.chunks_exact_mut(length)) {
                let line = &integers[column * across..][..length];
                let of_line = if scales.are_of_terms {
                    scales.numbers
                } else {
                    scales.of(0, column..column + 1)
                };
                widen(line, of_line, target);
            }
            return;
        }
        for (term, target) in self.target.chunks_exact_mut(count).enumerate() {
            let start = term * depth.right + columns.start * across;
            let scales = scales.of(term, columns.clone());
            widen(&integers[start..][..count], scales, target);
        }
    }
}

/// Writes the products of integers and scales, or of integers and a single scale.
#[inline(always)]
fn widen(integers: &[i8], scales: &[f32], target: &mut [f32]) {
    let numbers = target.iter_mut().zip(integers);
    if let [scale] = *scales {
        numbers.for_each(|(number, &integer)| *number = f32::from(integer) * scale);
    } else {
        let scaled = numbers.zip(scales);
        scaled.for_each(|((number, &integer), &scale)| *number = f32::from(integer) * scale);
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

    fn array<T: crate::base::dtype::ArrayElement>(shape: &[usize], elements: Vec<T>) -> Arc<Array> {
        Arc::new(Array::new(shape, elements))
    }

    #[test]
    fn product_has_the_bits_of_the_widened_operand() {
        for [rows, depth, columns] in [
            [1, 768, 3000],
            [1, 70, 130],
            [5, 200, 700],
            [40, 33, 1100],
            [100, 64, 20],
            [3, 1, 9],
            [1, 0, 5],
        ] {
            let left = array(&[rows, depth], numbers(rows * depth));
            for is_transposed in [false, true] {
                let shape = if is_transposed {
                    [columns, depth]
                } else {
                    [depth, columns]
                };
                let axis = usize::from(is_transposed);
                let dot = DotGeneral {
                    contract: (smallvec![1], smallvec![axis]),
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
                    let expected = dot.evaluate(Arc::clone(&left), widened);
                    let found = dot.evaluate_quantized(
                        Arc::clone(&left),
                        array(&shape, integers.clone()),
                        &array(&of_scales, scales),
                    );
                    let bits = |array: &Array| -> Vec<u32> {
                        array
                            .elements::<f32>()
                            .iter()
                            .map(|number| number.to_bits())
                            .collect()
                    };
                    assert_eq!(
                        bits(&found),
                        bits(&expected),
                        "{rows} {depth} {columns} {is_transposed} {are_of_terms:?}"
                    );
                }
            }
        }
    }
}
