//! The concatenation of arrays.

use std::ops::Range;
use std::sync::Arc;

use crate::base::array::{Array, reused_bits};
use crate::base::bits::{Bits, with_bits};
use crate::loops::strided::{rows_of_part, share_parts};

/// The greatest number of elements of a row that is copied element by element.
const SHORT: usize = 16;

/// Concatenates arrays along an axis. They have the same dtype, and the same lengths on all other axes.
pub fn evaluate(operands: &[Arc<Array>], axis: usize) -> Array {
    let whole = |operand: &Arc<Array>| 0..operand.shape()[axis];
    slices(
        operands,
        axis,
        &operands.iter().map(whole).collect::<Vec<_>>(),
    )
}

/// Concatenates a range of each array along an axis. The arrays have the same dtype, and the same lengths on all other axes.
pub fn slices(operands: &[Arc<Array>], axis: usize, ranges: &[Range<usize>]) -> Array {
    let mut shape = operands[0].info.shape.clone();
    shape[axis] = ranges.iter().map(ExactSizeIterator::len).sum();
    let outer: usize = shape[..axis].iter().product();
    let inner: usize = shape[axis + 1..].iter().product();
    let dtype = operands[0].dtype();
    with_bits!(dtype, T => {
        let mut elements = reused_bits::<T>(dtype, shape.iter().product());
        let part = |(operand, range): (&'_ Arc<Array>, &Range<usize>)| Part {
            row: operand.shape()[axis] * inner,
            start: range.start * inner,
            length: range.len() * inner,
        };
        let parts: Vec<(&[T], Part)> = operands
            .iter()
            .zip(ranges)
            .map(|pair| (pair.0.bits(), part(pair)))
            .collect();
        concatenate(&mut elements, &parts, outer);
        Array::from_bits(dtype, &shape, elements)
    })
}

/// The elements of each row of an array that are concatenated.
#[derive(Clone, Copy, PartialEq)]
struct Part {
    row: usize,
    start: usize,
    length: usize,
}

/// Writes the rows of the result: one row of each operand after the other. Threads share the rows, or parts of long rows.
fn concatenate<T: Bits>(target: &mut [T], operands: &[(&[T], Part)], outer: usize) {
    if target.is_empty() {
        return;
    }
    let row = target.len() / outer;
    let part = rows_of_part::<T>(1);
    let size = if row <= part { part - part % row } else { part };
    share_parts(target, 1, size, &|start, target| {
        if row <= SHORT {
            return short_rows(target, operands, start / row);
        }
        // The position in the concatenated rows, of which the target has a part.
        let mut position = start - start % row;
        let end = start + target.len();
        for index in start / row..end.div_ceil(row) {
            for &(
                operand,
                Part {
                    row,
                    start: first,
                    length,
                },
            ) in operands
            {
                let (from, to) = (position.max(start), (position + length).min(end));
                if from < to {
                    let first = index * row + first + from - position;
                    target[from - start..to - start]
                        .copy_from_slice(&operand[first..first + to - from]);
                }
                position += length;
            }
        }
    });
}

/// Writes whole rows, beginning with the row `first`, of a few elements each.
fn short_rows<T: Bits>(target: &mut [T], operands: &[(&[T], Part)], first: usize) {
    let row = operands.iter().map(|(_, part)| part.length).sum();
    let one = Part {
        row: 1,
        start: 0,
        length: 1,
    };
    if let &[(left, of_left), (right, of_right)] = operands
        && [of_left, of_right] == [one; 2]
    {
        let pairs = left[first..].iter().zip(&right[first..]);
        let targets = target.as_chunks_mut().0.iter_mut();
        return targets
            .zip(pairs)
            .for_each(|(target, (&left, &right))| *target = [left, right]);
    }
    let mut place = 0;
    for (operand, part) in operands {
        for column in 0..part.length {
            let elements = operand[first * part.row + part.start + column..].iter();
            let elements = elements.step_by(part.row);
            let targets = target[place + column..].iter_mut().step_by(row);
            targets
                .zip(elements)
                .for_each(|(target, &element)| *target = element);
        }
        place += part.length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Results of several parts, of short and long rows, agree with the elements in their order.
    #[test]
    fn parts_of_rows_join() {
        for (outer, lengths) in [
            (1, vec![70_000, 1, 0, 90_001]),
            (3, vec![70_000, 5]),
            (50_000, vec![1, 1]),
            (50_001, vec![2, 0, 1]),
            (9_001, vec![11, 7]),
            (0, vec![2, 3]),
        ] {
            let row: usize = lengths.iter().sum();
            let expected: Vec<i32> = (0..).take(outer * row).collect();
            let mut place = 0;
            let operands = lengths.iter().map(|&length| {
                let rows = expected.chunks(row).map(|row| &row[place..place + length]);
                let elements = rows.collect::<Vec<_>>().concat();
                place += length;
                Arc::new(Array::new([outer, length], elements))
            });
            let operands: Vec<Arc<Array>> = operands.collect();
            let found = evaluate(&operands, 1);
            assert_eq!(
                found.elements::<i32>(),
                expected,
                "{outer} rows of {lengths:?}"
            );
        }
    }
}
