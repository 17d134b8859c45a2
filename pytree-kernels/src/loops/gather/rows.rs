//! The rows of a table that indices select, without the rows in between.
//!
//! A gradient of a table is zero but for the rows that a step has read. These kernels work on the selected rows alone, and
//! compute the same bits as kernels of the whole table.

use std::sync::Arc;

use pytree_base::bug::bug;

use super::{Blocks, Indexed, Outside, Positions, combine_blocks};
use crate::base::array::Array;
use crate::base::combine::{Combine, Number, Sum, with_number};
use crate::base::dtype::DType;
use crate::base::fold::{LANES, PART, into_lanes, join_lanes, row};
use crate::base::narrow::widened;

/// Returns the distinct positions of `indices` on an axis of `length` positions, and for each index the place of its position among
/// them.
///
/// There are as many positions as indices, `i32[indices]`, in ascending order. Those behind the last distinct one are `length`. An index out of
/// range is clamped, or its place is the number of indices.
pub fn distinct_positions(indices: &Array, length: usize, outside: Outside) -> [Array; 2] {
    let count = indices.info.len();
    let wide = widened(indices);
    let axis = blocks(length, 1);
    let indexed = Indexed::new(&axis, &wide, outside);
    let mut positions = Positions {
        indexed: &indexed,
        first: 0,
        computed: Vec::new(),
    };
    let mut sorted: Vec<Numbered> = Vec::with_capacity(count);
    positions.each(0, |positions, first| {
        let numbers = first..first + positions.len();
        sorted.extend(positions.iter().zip(numbers).map(|(&at, number)| Numbered {
            position: position_of(at.min(length)),
            number: position_of(number),
        }));
    });
    sort(&mut sorted, usize::BITS - length.leading_zeros());
    let none = position_of(length);
    let mut distinct = vec![none; count];
    let mut places = vec![position_of(count); count];
    let mut found = 0;
    for Numbered { position, number } in sorted {
        if position == none {
            break;
        }
        if found == 0 || distinct[found - 1] != position {
            distinct[found] = position;
            found += 1;
        }
        places[number.cast_unsigned() as usize] = position_of(found - 1);
    }
    [
        Array::new([count], distinct),
        Array::new(indices.shape(), places),
    ]
}

/// Returns a number below 2³¹ as an i32.
fn position_of(position: usize) -> i32 {
    i32::try_from(position).unwrap_or_else(|_| bug("a position of at most 31 bits"))
}

/// A position, and the number of its index.
#[derive(Clone, Copy, Default)]
struct Numbered {
    position: i32,
    number: i32,
}

/// The greatest number of bits by which a pass over the keys sorts.
const DIGIT: u32 = 11;

/// Sorts positions of at most `bits` bits. Equal positions keep their order.
fn sort(keys: &mut Vec<Numbered>, bits: u32) {
    let passes = bits.div_ceil(DIGIT).max(1);
    let digit = bits.div_ceil(passes);
    let mut sorted = vec![Numbered::default(); keys.len()];
    for pass in 0..passes {
        let bucket = |key: Numbered| {
            (key.position.cast_unsigned() >> (pass * digit)) as usize & ((1 << digit) - 1)
        };
        let mut ends = [0_usize; 1 << DIGIT];
        for &key in &*keys {
            ends[bucket(key)] += 1;
        }
        let mut start = 0;
        for end in &mut ends {
            start += std::mem::replace(end, start);
        }
        for &key in &*keys {
            let place = &mut ends[bucket(key)];
            sorted[*place] = key;
            *place += 1;
        }
        std::mem::swap(keys, &mut sorted);
    }
}

fn blocks(length: usize, after: usize) -> Blocks {
    Blocks {
        batch: 1,
        before: 1,
        after,
        length,
    }
}

/// Adds `rows` to the rows of `table` at distinct `positions`, in the memory of the table if it has no other handle. Positions out of
/// range are ignored.
pub fn add_rows(table: Arc<Array>, positions: &Array, rows: &Array) -> Array {
    let info = table.info.clone();
    let length = info.shape[0];
    let after = info.len() / length.max(1);
    let mut result = Array::from_data(info, Array::into_data(table));
    let blocks = blocks(length, after);
    let indexed = Indexed::new(&blocks, positions, Outside::Drop);
    with_number!(rows.dtype(), T => {
        combine_blocks::<T, Sum>(T::of_mut(&mut result), T::of(rows), &indexed);
    });
    result
}

/// Returns the sum of all elements of a table of `length` rows, which are zero but for `rows` at ascending `positions`. The elements are added
/// in the order in which all elements of the table are.
pub fn sum_of_rows(positions: &Array, rows: &Array, length: usize) -> Array {
    let positions = positions.elements::<i32>();
    match rows.dtype() {
        DType::F32 => Array::new([], vec![total(positions, rows.elements::<f32>(), length)]),
        DType::F64 => Array::new([], vec![total(positions, rows.elements::<f64>(), length)]),
        other => bug(format_args!("floats to add, found {other}")),
    }
}

fn total<T: Number>(positions: &[i32], rows: &[T], length: usize) -> T {
    let width = rows.len() / positions.len().max(1);
    let mut parts = vec![T::ZERO; (length * width).div_ceil(PART).max(1)];
    let (mut part, mut lanes) = (0, [T::ZERO; LANES]);
    for (&position, mut elements) in positions.iter().zip(rows.chunks_exact(width.max(1))) {
        let position = usize::try_from(position).unwrap_or(length);
        if position >= length {
            break;
        }
        let mut start = position * width;
        while !elements.is_empty() {
            if start / PART != part {
                parts[part] = join_lanes::<T, Sum>(lanes);
                (part, lanes) = (start / PART, [Sum::START; LANES]);
            }
            let count = elements.len().min(PART - start % PART);
            let (now, later) = elements.split_at(count);
            into_lanes::<T, Sum>(&mut lanes, start % PART, now);
            (start, elements) = (start + count, later);
        }
    }
    parts[part] = join_lanes::<T, Sum>(lanes);
    row::<T, Sum>(&parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::dtype::AbstractArray;
    use crate::loops::reduction;

    #[test]
    fn positions_are_distinct_and_ascending() {
        let indices = Array::new([2, 4], vec![7_i32, 3, -1, 3, 9, -20, 0, 3]);
        let [distinct, places] = distinct_positions(&indices, 8, Outside::Drop);
        assert_eq!(distinct.elements::<i32>(), [0, 3, 7, 8, 8, 8, 8, 8]);
        assert_eq!(places.elements::<i32>(), [2, 1, 2, 1, 8, 8, 0, 1]);
        assert_eq!(places.shape(), [2, 4]);
        let [distinct, places] = distinct_positions(&indices, 8, Outside::Clamp);
        assert_eq!(distinct.elements::<i32>(), [0, 3, 7, 8, 8, 8, 8, 8]);
        assert_eq!(places.elements::<i32>(), [2, 1, 2, 1, 2, 0, 0, 1]);
        let none = Array::new([0], Vec::<i32>::new());
        assert!(
            distinct_positions(&none, 8, Outside::Clamp)[0]
                .info
                .is_empty()
        );
    }

    /// Lengths of one to three digits.
    #[test]
    fn many_positions_are_sorted() {
        for length in [3, 2048, 2049, 5_000_000, i32::MAX as usize] {
            let index = |number: usize| (number * 7_919_777) % length;
            let indices: Vec<i64> = (0..3000)
                .map(|number| i64::from(position_of(index(number))))
                .collect();
            let [distinct, places] =
                distinct_positions(&Array::new([3000], indices), length, Outside::Drop);
            let distinct = distinct.elements::<i32>();
            let mut expected: Vec<i32> = (0..3000).map(|n| position_of(index(n))).collect();
            expected.sort_unstable();
            expected.dedup();
            assert_eq!(distinct[..expected.len()], expected);
            for (number, &place) in places.elements::<i32>().iter().enumerate() {
                let place = usize::try_from(place).unwrap();
                assert_eq!(distinct[place], position_of(index(number)));
            }
        }
    }

    #[test]
    fn sum_of_rows_has_the_bits_of_the_dense_sum() {
        for (length, width) in [(20_000, 32), (7000, 13), (90_001, 1), (300, 2500), (3, 5)] {
            let mut dense = vec![0.0_f32; length * width];
            let positions: Vec<usize> = (0..length).filter(|at| at * 7 % 11 < 2).collect();
            let mut rows = Vec::new();
            for (number, &position) in positions.iter().enumerate() {
                for column in 0..width {
                    let element = ((number * 31 + column * 17) % 1009) as f32 * 0.37 - 180.0;
                    dense[position * width + column] = element;
                    rows.push(element);
                }
            }
            let mut padded: Vec<i32> = positions.iter().map(|&at| position_of(at)).collect();
            padded.push(position_of(length));
            rows.extend(vec![f32::NAN; width]);
            let rows = Array::new([padded.len(), width], rows);
            let found = sum_of_rows(&Array::new([padded.len()], padded), &rows, length);
            let dense = Array::new([length, width], dense);
            let expected = reduction::sum(&dense, DType::F32, &[0, 1]);
            assert_eq!(
                found.elements::<f32>()[0].to_bits(),
                expected.elements::<f32>()[0].to_bits()
            );
            assert_eq!(found.info, AbstractArray::new(DType::F32, []));
        }
    }
}
