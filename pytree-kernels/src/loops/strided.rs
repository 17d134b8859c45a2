//! Strided copies: the kernel of broadcasts, transposes, slices and reversals.

use smallvec::SmallVec;

use crate::base::array::{Array, reused_bits};
use crate::base::bits::{Bits, with_bits};
use crate::base::dtype::AbstractArray;
use crate::base::shape::{PerAxis, Shape};
use crate::base::threads::{self, share_rows};

/// The bytes that one part of a copy writes. The parts that a thread takes one after the other stay in the caches of its core.
const PART: usize = 1 << 16;

/// The bytes that a thread moves in a nanosecond.
const MOVED: usize = 4;

/// Copies elements that are addressed by strides, for transposes, broadcasts (stride 0), slices and reversals (negative
/// strides).
///
/// `shape` is the shape of the result. `strides` holds, for each axis of the result, the distance in `source` between
/// neighbours, and `offset` is the position in `source` of the first element.
pub fn gather(source: &Array, shape: &[usize], strides: &[isize], offset: usize) -> Array {
    if shape.contains(&0) {
        return Array::zeros(&AbstractArray::new(source.dtype(), shape));
    }
    let (lengths, steps) = joined_axes(shape, strides);
    with_bits!(source.dtype(), T => {
        let mut target = reused_bits::<T>(source.dtype(), shape.iter().product());
        gather_parts(source.bits::<T>(), &mut target, &lengths, &steps, offset.cast_signed());
        Array::from_bits(source.dtype(), shape, target)
    })
}

/// Joins neighbouring axes that can have one common stride, and removes axes of length 1.
pub fn joined_axes(shape: &[usize], strides: &[isize]) -> (Shape, PerAxis<isize>) {
    let mut lengths = Shape::new();
    let mut steps: PerAxis<isize> = SmallVec::new();
    for (&length, &stride) in shape
        .iter()
        .zip(strides)
        .filter(|(length, _)| **length != 1)
    {
        match (lengths.last_mut(), steps.last_mut()) {
            (Some(last), Some(step))
                if isize::try_from(length).is_ok_and(|length| *step == stride * length) =>
            {
                *last *= length;
                *step = stride;
            }
            _ => {
                lengths.push(length);
                steps.push(stride);
            }
        }
    }
    (lengths, steps)
}

/// Writes a result in parts, which threads share. A part has some of the positions of the first axis.
fn gather_parts<T: Bits>(
    source: &[T],
    target: &mut [T],
    lengths: &[usize],
    steps: &[isize],
    offset: isize,
) {
    let (Some(&length), Some(&step)) = (lengths.first(), steps.first()) else {
        return gather_into(source, target, lengths, steps, offset);
    };
    let size = target.len() / length;
    // The parts of a transpose are as large as possible, because each of them reads a part of each row of the source.
    let rows = if step == 1 {
        let parts = threads::count() * 2;
        length.div_ceil(parts).next_multiple_of(BLOCK)
    } else {
        rows_of_part::<T>(size)
    };
    share_parts(target, size, rows, &|row, target| {
        let mut lengths = Shape::from(lengths);
        lengths[0] = target.len() / size;
        let start = offset + row.cast_signed() * step;
        gather_into(source, target, &lengths, steps, start);
    });
}

/// Returns how many rows of a result with `size` elements each belong to a part.
pub(super) fn rows_of_part<T>(size: usize) -> usize {
    (PART / size_of::<T>()).div_ceil(size.max(1))
}

/// Runs a function on each part of a result, which has `count` rows of `size` elements, with the number of its first row. Threads share the
/// parts of a long result.
pub(super) fn share_parts<T: Send>(
    target: &mut [T],
    size: usize,
    count: usize,
    run: &(dyn Fn(usize, &mut [T]) + Sync),
) {
    share_rows(size_of_val(target) / MOVED, target, size, count, run);
}

fn gather_into<T: Bits>(
    source: &[T],
    target: &mut [T],
    lengths: &[usize],
    steps: &[isize],
    offset: isize,
) {
    let at = offset.cast_unsigned();
    match (lengths, steps) {
        ([], _) => target[0] = source[at],
        ([_], [0]) => target.fill(source[at]),
        ([length], [1]) => target.copy_from_slice(&source[at..at + length]),
        ([length], [-1]) => {
            let reversed = source[at + 1 - length..=at].iter().rev();
            let pairs = target.iter_mut().zip(reversed);
            pairs.for_each(|(target, &element)| *target = element);
        }
        ([length, times], [1, 0]) => {
            let elements = &source[at..at + length];
            if *times == 2 {
                let pairs = target.as_chunks_mut().0.iter_mut().zip(elements);
                return pairs.for_each(|(pair, &element)| *pair = [element; 2]);
            }
            let runs = target.chunks_exact_mut(*times);
            for (run, &element) in runs.zip(elements) {
                run.iter_mut().for_each(|target| *target = element);
            }
        }
        // The last element may have no neighbour.
        ([length], [2]) => {
            let pairs = source[at..].as_chunks::<2>().0;
            let pairs = target[..length - 1].iter_mut().zip(pairs);
            pairs.for_each(|(target, pair)| *target = pair[0]);
            target[length - 1] = source[at + 2 * (length - 1)];
        }
        ([_], [step]) => {
            let positions = (0..).map(|index: isize| (offset + index * step).cast_unsigned());
            target
                .iter_mut()
                .zip(positions)
                .for_each(|(target, position)| *target = source[position]);
        }
        ([rows, columns], [1, step]) if *step > 0 => {
            transpose_into(
                &source[at..],
                target,
                [*rows, *columns],
                step.cast_unsigned(),
            );
        }
        _ => {
            let size = target.len() / lengths[0];
            if steps[0] == 0 {
                gather_into(
                    source,
                    &mut target[..size],
                    &lengths[1..],
                    &steps[1..],
                    offset,
                );
                return repeat_first(target, size);
            }
            for (part, start) in target
                .chunks_exact_mut(size)
                .zip((0..).map(|index: isize| offset + index * steps[0]))
            {
                gather_into(source, part, &lengths[1..], &steps[1..], start);
            }
        }
    }
}

/// Adds each element of `source` to its strided position in `target`. `shape` is the shape of `source`. This function
/// is the transpose of [`gather`].
pub fn add_by_strides<T: Copy>(
    source: &[T],
    target: &mut [T],
    shape: &[usize],
    strides: &[isize],
    add: impl Fn(T, T) -> T + Copy,
) {
    if !source.is_empty() {
        let (lengths, steps) = joined_axes(shape, strides);
        add_into(source, target, &lengths, &steps, 0, add);
    }
}

fn add_into<T: Copy>(
    source: &[T],
    target: &mut [T],
    lengths: &[usize],
    steps: &[isize],
    offset: isize,
    add: impl Fn(T, T) -> T + Copy,
) {
    let at = offset.cast_unsigned();
    match (lengths, steps) {
        ([], _) => target[at] = add(target[at], source[0]),
        ([length], [1]) => {
            let target = &mut target[at..at + length];
            target
                .iter_mut()
                .zip(source)
                .for_each(|(sum, &term)| *sum = add(*sum, term));
        }
        _ => {
            let size = source.len() / lengths[0];
            for (part, start) in source
                .chunks_exact(size)
                .zip((0..).map(|index: isize| offset + index * steps[0]))
            {
                add_into(part, target, &lengths[1..], &steps[1..], start, add);
            }
        }
    }
}

/// Fills `target` with copies of its first `size` elements, in blocks that fit into the cache.
fn repeat_first<T: Copy>(target: &mut [T], size: usize) {
    const BLOCK: usize = 4096;
    let block = BLOCK.next_multiple_of(size);
    let mut filled = size;
    while filled < target.len() {
        let count = filled.min(block).min(target.len() - filled);
        target.copy_within(..count, filled);
        filled += count;
    }
}

/// The rows and columns of a block of a transpose.
const BLOCK: usize = 16;

/// Writes `source[row + column * stride]` to `target[row * columns + column]`. Proceeds in square blocks that fit into
/// the cache. The next block is a neighbour in the rows of the source, which the processor then requests by itself.
fn transpose_into<T: Bits>(
    source: &[T],
    target: &mut [T],
    [rows, columns]: [usize; 2],
    stride: usize,
) {
    let mut block = [[T::default(); BLOCK]; BLOCK];
    for first_column in (0..columns).step_by(BLOCK) {
        let width = BLOCK.min(columns - first_column);
        for first_row in (0..rows).step_by(BLOCK) {
            let height = BLOCK.min(rows - first_row);
            if (height, width) == (BLOCK, BLOCK) {
                for (column, block) in block.iter_mut().enumerate() {
                    let at = (first_column + column) * stride + first_row;
                    block.copy_from_slice(&source[at..at + BLOCK]);
                }
                let targets = target[first_row * columns..].chunks_mut(columns);
                for (row, target) in targets.take(BLOCK).enumerate() {
                    let elements: [T; BLOCK] = std::array::from_fn(|column| block[column][row]);
                    target[first_column..first_column + BLOCK].copy_from_slice(&elements);
                }
                continue;
            }
            for column in 0..width {
                for row in 0..height {
                    target[(first_row + row) * columns + first_column + column] =
                        source[(first_column + column) * stride + first_row + row];
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reversed_and_repeated_elements_are_found() {
        let source = Array::new([2, 3], (0..6).collect::<Vec<i32>>());
        let found = |shape: &[usize], strides: &[isize], offset| {
            let result = gather(&source, shape, strides, offset);
            result.elements::<i32>().to_vec()
        };
        assert_eq!(found(&[2, 3], &[3, -1], 2), [2, 1, 0, 5, 4, 3]);
        assert_eq!(found(&[6], &[-1], 5), [5, 4, 3, 2, 1, 0]);
        assert_eq!(found(&[3, 2], &[1, 0], 3), [3, 3, 4, 4, 5, 5]);
    }

    /// Results of several parts agree with a loop over all positions.
    #[test]
    fn parts_of_copies_join() {
        let source: Vec<i32> = (0..200_000).collect();
        let array = Array::new([source.len()], source.clone());
        for (shape, strides, offset) in [
            (vec![301, 503], vec![1, 301], 7),
            (vec![99_999], vec![2], 1),
            (vec![100_000], vec![-1], 150_000),
            (vec![40_000, 2], vec![1, 0], 3),
            (vec![3, 40_000], vec![0, 1], 5),
            (vec![50, 7, 300], vec![300, 20_000, 1], 0),
        ] {
            let found = gather(&array, &shape, &strides, offset);
            let expected = (0..found.info.len()).map(|position| {
                let mut rest = position;
                let mut at = offset.cast_signed();
                for (&length, stride) in shape.iter().zip(&strides).rev() {
                    at += (rest % length).cast_signed() * stride;
                    rest /= length;
                }
                source[at.cast_unsigned()]
            });
            let expected: Vec<i32> = expected.collect();
            assert!(found.elements::<i32>() == expected, "{shape:?} {strides:?}");
        }
    }
}
