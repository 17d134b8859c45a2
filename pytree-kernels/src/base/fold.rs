//! The order in which reductions combine elements.
//!
//! Floating-point addition is not associative, so the order determines the bits of a result. The order depends only on
//! the shape and the axes. The number of threads, the tiles of a fused kernel and the compilation of a function do not
//! change the order. Single operations and fused kernels both use the functions below.
//!
//! - A **row** (neighbouring elements) is divided into parts of `PART` elements. Element `i` of a part is combined
//!   into lane `i % LANES`. After all elements of the part, the lanes are combined pairwise. The results of the parts
//!   form a shorter row, which is reduced in the same way.
//! - **Columns** (several rows that are reduced, element by element, to a single row) are divided into blocks of
//!   `block_rows` rows. The rows of a block are combined one after the other. The results of the blocks form fewer
//!   rows, which are reduced in the same way.
//!
//! So any thread may compute any part or block without an effect on the result. Rounding errors grow with the logarithm
//! of the length (Higham, "The accuracy of floating point summation", 1993).

use crate::base::array::{give_back, reused};
use crate::base::combine::Combine;
use crate::base::dtype::ArrayElement;
use crate::base::instructions::leaf_if;

/// The operation with which a reduction combines two elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fold {
    /// The sum.
    Sum,
    /// The greatest element.
    Max,
    /// The least element.
    Min,
}

impl Fold {
    /// Returns the name of the operation in jaxprs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Max => "max",
            Self::Min => "min",
        }
    }
}

/// The number of lanes. A lane is an accumulator. The lanes combine different elements of a part at the same time.
pub(crate) const LANES: usize = 32;

/// The number of elements that one loop combines into each lane. The compiler unrolls a loop over the lanes that combines a single one,
/// and then finds no wide instructions that fit.
const CHUNKS: usize = 4;

/// The number of short rows that are combined at a time.
const ROWS: usize = 16;

/// The number of short rows from which on several of them are combined at a time.
const FEW_ROWS: usize = 4;

/// The number of elements of a part. Rows are divided into parts.
pub(crate) const PART: usize = 32 * LANES;

/// The accumulators of a part. Lane `i` combines the elements `i`, `i + LANES`, `i + 2·LANES`, … of the part.
pub(crate) type Lanes<T> = [T; LANES];

/// Combines some elements of a part into the part's lanes. `position` is the index of the first of these elements in
/// the part.
#[inline(always)]
fn combine_lanes<T: Copy, C: Combine<T>>(lanes: &mut Lanes<T>, position: usize, elements: &[T]) {
    let first = position % LANES;
    let (head, rest) = elements.split_at(((LANES - first) % LANES).min(elements.len()));
    let (blocks, rest) = rest.as_chunks::<{ CHUNKS * LANES }>();
    let (chunks, tail) = rest.as_chunks::<LANES>();
    for at in 0..head.len() {
        lanes[first + at] = C::combine(lanes[first + at], head[at]);
    }
    for block in blocks {
        let mut lane = 0;
        while lane < LANES {
            let (mut combined, mut chunk) = (lanes[lane], 0);
            while chunk < CHUNKS {
                combined = C::combine(combined, block[chunk * LANES + lane]);
                chunk += 1;
            }
            lanes[lane] = combined;
            lane += 1;
        }
    }
    for chunk in chunks {
        for lane in 0..LANES {
            lanes[lane] = C::combine(lanes[lane], chunk[lane]);
        }
    }
    for lane in 0..tail.len() {
        lanes[lane] = C::combine(lanes[lane], tail[lane]);
    }
}

/// Combines some elements of a part into the part's lanes, as [`combine_lanes`] does.
pub(crate) fn into_lanes<T: Copy, C: Combine<T>>(
    lanes: &mut Lanes<T>,
    position: usize,
    elements: &[T],
) {
    leaf_if! { C::IS_WIDE =>
        combine_lanes::<T, C>(lanes, position, elements);
    }
}

/// Combines the lanes of a part pairwise, and returns the result of the part.
#[inline(always)]
pub(crate) fn join_lanes<T: Copy, C: Combine<T>>(mut lanes: Lanes<T>) -> T {
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] = C::combine(lanes[lane], lanes[lane + width]);
        }
        width /= 2;
    }
    lanes[0]
}

/// Combines the elements of each part, which has `length` elements, and at most [`PART`]. The last one may be shorter.
fn parts<T: Copy, C: Combine<T>>(results: &mut [T], elements: &[T], length: usize) {
    leaf_if! { C::IS_WIDE =>
        for at in 0..results.len() {
            let end = elements.len().min((at + 1) * length);
            let mut lanes = [C::START; LANES];
            combine_lanes::<T, C>(&mut lanes, 0, &elements[at * length..end]);
            results[at] = join_lanes::<T, C>(lanes);
        }
    }
}

/// Combines the elements of each row of `length` elements.
pub(crate) fn rows<T: ArrayElement, C: Combine<T>>(
    results: &mut [T],
    elements: &[T],
    length: usize,
) {
    if length <= LANES && (results.len() >= FEW_ROWS || length == 0) {
        short_rows::<T, C>(results, elements, length);
    } else if length <= PART {
        parts::<T, C>(results, elements, length);
    } else {
        for (result, elements) in results.iter_mut().zip(elements.chunks_exact(length)) {
            *result = row::<T, C>(elements);
        }
    }
}

/// Combines the elements of rows that are at most as long as a part has lanes, several rows at a time. Lanes that no element of a row
/// has change nothing, so only the others are combined.
#[allow(
    unsafe_code,
    reason = "the loop over rows has wide instructions only without checks"
)]
fn short_rows<T: Copy, C: Combine<T>>(results: &mut [T], elements: &[T], length: usize) {
    leaf_if! { C::IS_WIDE =>
        let mut lanes = [[C::START; ROWS]; LANES];
        let mut first = 0;
        while first < results.len() {
            let count = ROWS.min(results.len() - first);
            let elements = &elements[first * length..][..count * length];
            for lane in 0..length {
                for row in 0..count {
                    // SAFETY: the elements are `count` rows of `length`. The compiler would not see it, and use no wide instructions.
                    let element = unsafe { *elements.get_unchecked(row * length + lane) };
                    lanes[lane][row] = C::combine(C::START, element);
                }
            }
            let mut width = length.next_power_of_two();
            for lane in length..width {
                lanes[lane] = [C::START; ROWS];
            }
            while width > 1 {
                width /= 2;
                for lane in 0..width {
                    for row in 0..ROWS {
                        lanes[lane][row] = C::combine(lanes[lane][row], lanes[lane + width][row]);
                    }
                }
            }
            for row in 0..count {
                results[first + row] = lanes[0][row];
            }
            first += ROWS;
        }
    }
}

/// Combines the elements of a row of any length.
pub(crate) fn row<T: ArrayElement, C: Combine<T>>(elements: &[T]) -> T {
    let mut results: Option<Vec<T>> = None;
    loop {
        let elements = results.as_deref().unwrap_or(elements);
        if elements.len() <= PART {
            let mut last = [C::START];
            if !elements.is_empty() {
                parts::<T, C>(&mut last, elements, PART);
            }
            results.into_iter().for_each(give_back);
            return last[0];
        }
        let mut shorter = reused(elements.len().div_ceil(PART));
        parts::<T, C>(&mut shorter, elements, PART);
        results.replace(shorter).into_iter().for_each(give_back);
    }
}

/// Returns the number of rows in a block: about an eighth of all rows, but at least 32 and at most 64. Short blocks let
/// threads share even few rows. As in XLA, up to 32 rows are added one after the other.
pub(crate) fn block_rows(rows: usize) -> usize {
    (rows / 8).next_power_of_two().clamp(32, 64)
}

/// Combines each element of a row with the same element of `target`, and writes the result to `target`.
pub(crate) fn into_row<T: Copy, C: Combine<T>>(target: &mut [T], row: &[T]) {
    leaf_if! { C::IS_WIDE =>
        combine_rows::<T, C>(target, row);
    }
}

#[inline(always)]
fn combine_rows<T: Copy, C: Combine<T>>(target: &mut [T], row: &[T]) {
    let row = &row[..target.len()];
    for at in 0..target.len() {
        target[at] = C::combine(target[at], row[at]);
    }
}

/// Reduces each block of `length` elements, in rows of `width`, to a single row. The last block may be shorter.
fn blocks<T: Copy, C: Combine<T>>(results: &mut [T], elements: &[T], width: usize, length: usize) {
    leaf_if! { C::IS_WIDE =>
        for block in 0..results.len() / width {
            let result = &mut results[block * width..][..width];
            for target in &mut *result {
                *target = C::START;
            }
            let end = elements.len().min((block + 1) * length);
            let mut at = block * length;
            while at < end {
                combine_rows::<T, C>(result, &elements[at..at + width]);
                at += width;
            }
        }
    }
}

/// Reduces each group of `length` rows of `width` elements, element by element, to a single row of `results`. There is at least one
/// row. If `are_blocks`, the groups are blocks of more rows.
pub(crate) fn columns<T: ArrayElement, C: Combine<T>>(
    results: &mut [T],
    elements: &[T],
    (length, width): (usize, usize),
    are_blocks: bool,
) {
    if are_blocks || length <= block_rows(length) {
        return blocks::<T, C>(results, elements, width, length * width);
    }
    let groups = elements.chunks_exact(length * width);
    for (target, rows) in results.chunks_exact_mut(width).zip(groups) {
        let mut results: Option<Vec<T>> = None;
        loop {
            let rows = results.as_deref().unwrap_or(rows);
            let block = block_rows(rows.len() / width) * width;
            if rows.len() <= block {
                blocks::<T, C>(target, rows, width, block);
                results.into_iter().for_each(give_back);
                break;
            }
            let mut shorter = reused(rows.len().div_ceil(block) * width);
            blocks::<T, C>(&mut shorter, rows, width, block);
            results.replace(shorter).into_iter().for_each(give_back);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::combine::Sum;

    /// Returns numbers whose rounded sum depends on the order of the additions.
    fn noise(count: usize) -> Vec<f32> {
        let number = |n: usize| ((n * 7919 + n / 13) % 1009) as f32 * 0.37 - 180.0;
        (0..count).map(number).collect()
    }

    #[test]
    fn folds_have_names() {
        let names = [Fold::Sum, Fold::Max, Fold::Min].map(Fold::name);
        assert_eq!(names, ["sum", "max", "min"]);
    }

    #[test]
    fn parts_may_be_added_piecewise() {
        let elements = noise(PART);
        let whole = row::<f32, Sum>(&elements);
        for cuts in [[1, 2], [31, 33], [7, 512], [500, 1000], [0, PART]] {
            let mut lanes = [0.0; LANES];
            for (from, to) in [(0, cuts[0]), (cuts[0], cuts[1]), (cuts[1], PART)] {
                into_lanes::<f32, Sum>(&mut lanes, from, &elements[from..to]);
            }
            assert_eq!(join_lanes::<f32, Sum>(lanes).to_bits(), whole.to_bits());
        }
    }

    #[test]
    fn other_columns_change_no_order() {
        let (rows, width) = (100, 3);
        let numbers = noise(rows * width);
        let mut sums = vec![0.0; width];
        columns::<f32, Sum>(&mut sums, &numbers, (rows, width), false);
        for (column, sum) in sums.iter().enumerate() {
            let of_column = numbers.iter().skip(column).step_by(width);
            let mut alone = [0.0];
            let column: Vec<f32> = of_column.copied().collect();
            columns::<f32, Sum>(&mut alone, &column, (rows, 1), false);
            assert_eq!(alone[0].to_bits(), sum.to_bits());
        }
    }

    #[test]
    fn short_rows_have_the_order_of_parts() {
        for length in 1..=LANES + 1 {
            for count in [1, ROWS - 1, ROWS, 2 * ROWS + 3] {
                let mut elements = noise(count * length);
                elements[0] = -0.0;
                let mut sums = vec![0.0; count];
                rows::<f32, Sum>(&mut sums, &elements, length);
                for (sum, row) in sums.iter().zip(elements.chunks(length)) {
                    assert_eq!(sum.to_bits(), super::row::<f32, Sum>(row).to_bits());
                }
            }
        }
    }

    #[test]
    fn long_rows_have_the_order_of_one_row() {
        for length in [LANES + 2, PART - 1, PART, PART + 1, 2 * PART + 5] {
            let elements = noise(3 * length);
            let mut sums = [0.0; 3];
            rows::<f32, Sum>(&mut sums, &elements, length);
            for (sum, row) in sums.iter().zip(elements.chunks(length)) {
                assert_eq!(sum.to_bits(), super::row::<f32, Sum>(row).to_bits());
            }
        }
    }

    #[test]
    fn row_is_added_to_a_target() {
        let mut target = [1_u32, 2, 3];
        into_row::<u32, Sum>(&mut target, &[10, 20, 30, 40]);
        assert_eq!(target, [11, 22, 33]);
    }

    #[test]
    fn rows_and_columns_add_each_element_once() {
        for count in [0, 1, 31, 32, 33, 1024, 1025, 5000, 1_100_000] {
            let ones = vec![1_i64; count];
            let sum = row::<i64, Sum>(&ones);
            assert_eq!(usize::try_from(sum), Ok(count));
        }
        for (rows, width) in [(1, 3), (8, 2), (9, 2), (63, 5), (513, 1), (5000, 3)] {
            let numbers: Vec<u32> = (0..).take(rows * width).collect();
            let mut sums = vec![0; width];
            columns::<u32, Sum>(&mut sums, &numbers, (rows, width), false);
            let column = |column| numbers.iter().skip(column).step_by(width);
            let expected =
                (0..width).map(|at| column(at).fold(0, |sum, &x| u32::wrapping_add(sum, x)));
            assert_eq!(sums, expected.collect::<Vec<u32>>());
        }
    }

    #[test]
    fn blocks_have_an_eighth_of_the_rows() {
        let sizes = [0, 1, 256, 263, 264, 512, 513, 100_000].map(block_rows);
        assert_eq!(sizes, [32, 32, 32, 32, 64, 64, 64, 64]);
    }

    #[test]
    fn columns_add_blocks_of_rows() {
        for (rows, width) in [(300, 3), (512, 5), (2000, 2)] {
            let numbers = noise(rows * width);
            let in_order = |rows: &[f32]| -> Vec<f32> {
                let column = |column| rows.iter().skip(column).step_by(width);
                (0..width)
                    .map(|at| column(at).fold(0.0, |sum, &x| sum + x))
                    .collect()
            };
            let blocks = numbers.chunks(block_rows(rows) * width);
            let expected = in_order(&blocks.flat_map(in_order).collect::<Vec<f32>>());
            assert_ne!(
                expected,
                in_order(&numbers),
                "the order does not matter here"
            );
            let mut sums = vec![0.0; width];
            columns::<f32, Sum>(&mut sums, &numbers, (rows, width), false);
            assert_eq!(sums, expected);
        }
    }

    #[test]
    fn long_sums_stay_accurate() {
        // 0.1 in f32 is 0.100000001490116. A single accumulator would stop at 2^21, where 0.1 is less than half of the
        // distance between neighbouring floats. This order rounds at most 64 times at each of four levels.
        let tenths = vec![0.1_f32; 20_000_000];
        let expected = 2_000_000.029_802_32;
        let mut sums = [0.0; 2];
        columns::<f32, Sum>(&mut sums, &tenths, (tenths.len() / 2, 2), false);
        for total in [row::<f32, Sum>(&tenths), sums[0] * 2.0] {
            assert!((f64::from(total) - expected).abs() <= 2.0, "{total}");
        }
    }
}
