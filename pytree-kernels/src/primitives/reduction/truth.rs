//! Reductions of the truth of elements: whether any or every element is nonzero. The elements of any dtype are read as they are.

use super::Pass;
use crate::base::array::Array;
use crate::base::bits::{Bits, with_bits};
use crate::base::instructions::arch;
use crate::base::threads::{self, share_rows};

/// The bytes of elements that one thread tests in a nanosecond.
const BYTES_PER_NANOSECOND: usize = 16;

/// The elements of a row that are tested before the search may end.
const SOME: usize = 512;

/// The rows that are combined at once, while the result of each column is read and written.
const ROWS: usize = 4;

/// Writes whether any element, or every one with `is_all`, of each row or column of a pass is true.
pub(super) fn truths(is_all: bool, pass: Pass, operand: &Array, result: &mut [bool]) {
    with_bits!(operand.dtype(), T => {
        let elements = operand.bits::<T>();
        if operand.dtype().is_float() {
            shared::<T, true>(is_all, pass, elements, result);
        } else {
            shared::<T, false>(is_all, pass, elements, result);
        }
    });
}

/// Divides a pass among threads: its first axis, or its third one, or a single row.
fn shared<T: Bits, const IS_FLOAT: bool>(
    is_all: bool,
    Pass { length, inner, .. }: Pass,
    elements: &[T],
    result: &mut [bool],
) {
    let nanoseconds = size_of_val(elements) / BYTES_PER_NANOSECOND;
    let size = length * inner;
    if size == 0 {
        return result.fill(is_all);
    }
    let threads = if threads::are_worth(nanoseconds) {
        threads::count()
    } else {
        1
    };
    let part = |elements, length, stride, result: &mut [bool], inner| {
        arch().dispatch(Truths::<T, IS_FLOAT> {
            elements,
            length,
            stride,
            inner,
            result,
            is_all,
        });
    };
    let outer = elements.len() / size;
    if outer >= threads {
        let count = outer.div_ceil(threads);
        share_rows(nanoseconds, result, inner, count, &|first, result| {
            part(&elements[first * size..], length, inner, result, inner);
        });
    } else if inner > 1 {
        for (elements, result) in elements
            .chunks_exact(size)
            .zip(result.chunks_exact_mut(inner))
        {
            let count = inner.div_ceil(threads);
            share_rows(nanoseconds / outer, result, 1, count, &|first, result| {
                let columns = result.len();
                part(&elements[first..], length, inner, result, columns);
            });
        }
    } else {
        for (row, result) in elements.chunks_exact(length).zip(result) {
            let count = length.div_ceil(threads);
            let mut found = vec![is_all; length.div_ceil(count)];
            share_rows(nanoseconds / outer, &mut found, 1, 1, &|first, found| {
                let row = &row[first * count..length.min((first + 1) * count)];
                part(row, row.len(), 1, found, 1);
            });
            *result = found.contains(&!is_all) != is_all;
        }
    }
}

/// The truth of columns, or of rows if `inner` is 1. The rows of columns are `stride` elements apart. The code is compiled for the wide
/// instruction sets.
struct Truths<'a, T, const IS_FLOAT: bool> {
    elements: &'a [T],
    length: usize,
    stride: usize,
    inner: usize,
    result: &'a mut [bool],
    is_all: bool,
}

impl<T: Bits, const IS_FLOAT: bool> Truths<'_, T, IS_FLOAT> {
    /// The bits of a `u64` that decide about the truth. The zeros of floats differ in their sign bit, which is the highest one.
    const DECISIVE: u64 = u64::MAX >> (64 - 8 * size_of::<T>() + IS_FLOAT as usize);
}

impl<T: Bits, const IS_FLOAT: bool> pulp::WithSimd for Truths<'_, T, IS_FLOAT> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        let Self {
            elements,
            length,
            stride,
            inner,
            result,
            is_all,
        } = self;
        // An element whose truth decides alone: the first true one of any, or the first false one of all.
        let decides = |element: T| (element.to_u64() & Self::DECISIVE != 0) != is_all;
        if inner == 1 && stride == 1 {
            for (row, result) in elements.chunks_exact(length).zip(result) {
                let is_decided = row.chunks(SOME).any(|elements| {
                    let decisions = elements.iter().map(|&element| decides(element));
                    decisions.fold(false, |found, decides| found | decides)
                });
                *result = is_decided != is_all;
            }
            return;
        }
        let blocks = elements.chunks(length * stride);
        for (block, result) in blocks.zip(result.chunks_exact_mut(inner)) {
            result.fill(is_all);
            let mut row = 0;
            while row < length {
                let count = if row + ROWS <= length { ROWS } else { 1 };
                let rows: [&[T]; ROWS] = std::array::from_fn(|at| {
                    let start = (row + at % count) * stride;
                    &block[start..start + result.len()]
                });
                for (column, result) in result.iter_mut().enumerate() {
                    let decisions = rows.iter().map(|row| decides(row[column]));
                    let is_decided = decisions.fold(*result != is_all, |found, it| found | it);
                    *result = is_decided != is_all;
                }
                row += count;
            }
        }
    }
}
