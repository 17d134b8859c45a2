//! Reductions of elements that are converted, and of narrow elements, which are widened. Both happen part by part, where the order of
//! the combinations has its parts and blocks.

use std::ops::Range;

use super::pass::Pass;
use crate::base::array::Array;
use crate::base::dtype::{AbstractArray, DType};
use crate::base::fold::{self, PART};
use crate::base::narrow::{wide, widened_part, write_part};
use crate::loops::strided;

/// Writes a pass over an array to another array.
pub(super) type Reduce<'a> = dyn Fn(Pass, &Array, &mut Array) + 'a;

/// About how many elements are widened at a time.
const WIDENED: usize = 16 * PART;

/// The number of columns that are widened at a time, if there are more.
const COLUMNS: usize = 256;

/// Writes a pass over an array to a result of another dtype, or of a narrow one. Converts some elements at a time.
pub(super) fn reduce_widened(pass: Pass, operand: &Array, result: &mut Array, reduce: &Reduce<'_>) {
    let Pass { length, inner, .. } = pass;
    let dtype = wide(result.dtype());
    let size = length * inner;
    if size == 0 {
        let mut start = Array::reused(&AbstractArray::new(dtype, [result.info.len()]));
        reduce(pass, &elements(operand, 0..0, dtype), &mut start);
        return write_part(&start, 0..start.info.len(), result, 0);
    }
    if size <= WIDENED {
        let (outer, blocks) = (operand.info.len() / size, WIDENED / size);
        for first in (0..outer).step_by(blocks) {
            let last = outer.min(first + blocks);
            let part = elements(operand, first * size..last * size, dtype);
            reduce_to(pass, &part, result, first * inner, reduce);
        }
        return;
    }
    for block in 0..operand.info.len() / size {
        if inner == 1 {
            let row = block * size..(block + 1) * size;
            let parts = reduced_parts(operand, dtype, row, reduce);
            reduce_to(
                Pass::new(parts.info.len(), 1),
                &parts,
                result,
                block,
                reduce,
            );
            continue;
        }
        // The last columns may be reduced again. A single column would be a row, which has another order.
        let width = COLUMNS.min(inner);
        for column in (0..inner).step_by(width) {
            let column = column.min(inner - width);
            let first = block * size + column;
            let rows = reduced_blocks(operand, dtype, first, pass, width, reduce);
            let pass = Pass::new(rows.info.len() / width, width);
            reduce_to(pass, &rows, result, block * inner + column, reduce);
        }
    }
}

/// Returns a row of elements, converted to a dtype.
pub(super) fn elements(operand: &Array, range: Range<usize>, dtype: DType) -> Array {
    if dtype != operand.dtype() {
        return widened_part(operand, range);
    }
    let mut part = Array::reused(&AbstractArray::new(dtype, [range.len()]));
    write_part(operand, range, &mut part, 0);
    part
}

/// Writes a pass over an array to a result, from the position `at` on.
fn reduce_to(pass: Pass, part: &Array, result: &mut Array, at: usize, reduce: &Reduce<'_>) {
    let length = part.info.len() / pass.length;
    let mut reduced = Array::reused(&AbstractArray::new(part.dtype(), [length]));
    reduce(pass, part, &mut reduced);
    write_part(&reduced, 0..length, result, at);
}

/// Reduces each part of a row; see [`fold::row`].
fn reduced_parts(operand: &Array, dtype: DType, row: Range<usize>, reduce: &Reduce<'_>) -> Array {
    let count = row.len().div_ceil(PART);
    let mut results = Array::reused(&AbstractArray::new(dtype, [count]));
    let whole = row.len() / PART * PART;
    let starts = (0..whole).step_by(WIDENED);
    let several = starts.map(|start| (start..whole.min(start + WIDENED), PART));
    let last = (whole < row.len()).then(|| (whole..row.len(), row.len() - whole));
    for (range, length) in several.chain(last) {
        let at = range.start / PART;
        let range = row.start + range.start..row.start + range.end;
        let part = elements(operand, range, dtype);
        reduce_to(Pass::new(length, 1), &part, &mut results, at, reduce);
    }
    results
}

/// Reduces each block of rows, of which it reads `width` columns from the element `first` on; see [`fold::columns`].
fn reduced_blocks(
    operand: &Array,
    dtype: DType,
    first: usize,
    Pass { length, inner, .. }: Pass,
    width: usize,
    reduce: &Reduce<'_>,
) -> Array {
    let most = fold::block_rows(length);
    let info = AbstractArray::new(dtype, [length.div_ceil(most) * width]);
    let mut results = Array::reused(&info);
    for row in (0..length).step_by(most) {
        let count = most.min(length - row);
        let strides = [inner.cast_signed(), 1];
        let rows = strided::gather(operand, &[count, width], &strides, first + row * inner);
        let pass = Pass {
            is_block: true,
            ..Pass::new(count, width)
        };
        let part = elements(&rows, 0..count * width, dtype);
        reduce_to(pass, &part, &mut results, row / most * width, reduce);
    }
    results
}
