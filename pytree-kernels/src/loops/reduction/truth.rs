//! Reductions of the truth of elements: whether any or every element is nonzero. The elements of any dtype are read as they are.

use super::pass::Pass;
use crate::base::array::Array;
use crate::base::bits::{Bits, with_bits};
use crate::base::instructions::leaf;
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
        part_truths::<T, IS_FLOAT>(is_all, elements, (length, stride), result, inner);
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

/// Writes the truth of columns, or of rows if `inner` is 1. The rows of columns are `stride` elements apart.
fn part_truths<T: Bits, const IS_FLOAT: bool>(
    is_all: bool,
    elements: &[T],
    (length, stride): (usize, usize),
    result: &mut [bool],
    inner: usize,
) {
    leaf! {
        // The bits that decide about the truth: the zeros of floats differ in their sign bit, which is the highest one. Constant, because an
        // element would be widened to 64 bits to be compared with a captured number.
        let decisive = const { u64::MAX >> (64 - 8 * size_of::<T>() + IS_FLOAT as usize) };
        if inner == 1 && stride == 1 {
            for row in 0..result.len().min(elements.len() / length) {
                let (mut at, end) = (row * length, (row + 1) * length);
                let mut is_decided = false;
                while at < end && !is_decided {
                    for &element in &elements[at..end.min(at + SOME)] {
                        is_decided |= decides(element, decisive, is_all);
                    }
                    at += SOME;
                }
                result[row] = is_decided != is_all;
            }
            return;
        }
        for block in 0..result.len() / inner {
            let block_elements = &elements[block * length * stride..];
            let result = &mut result[block * inner..][..inner];
            for column in 0..inner {
                result[column] = is_all;
            }
            let mut row = 0;
            while row < length {
                let count = if row + ROWS <= length { ROWS } else { 1 };
                let mut rows = [&[] as &[T]; ROWS];
                for at in 0..ROWS {
                    rows[at] = &block_elements[(row + at % count) * stride..][..inner];
                }
                for column in 0..inner {
                    let mut is_decided = result[column] != is_all;
                    for at in 0..ROWS {
                        is_decided |= decides(rows[at][column], decisive, is_all);
                    }
                    result[column] = is_decided != is_all;
                }
                row += count;
            }
        }
    }
}

/// Returns whether the truth of an element decides alone: the first true one of any, or the first false one of all.
#[inline(always)]
fn decides<T: Bits>(element: T, decisive: u64, is_all: bool) -> bool {
    (element.to_u64() & decisive != 0) != is_all
}
