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
use crate::base::dtype::ArrayElement;

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

/// The number of elements of a part. Rows are divided into parts.
pub(crate) const PART: usize = 32 * LANES;

/// The accumulators of a part. Lane `i` combines the elements `i`, `i + LANES`, `i + 2·LANES`, … of the part.
pub(crate) type Lanes<T> = [T; LANES];

/// Combines some elements of a part into the part's lanes. `position` is the index of the first of these elements in
/// the part.
#[inline(always)]
pub(crate) fn into_lanes<T: Copy>(
    lanes: &mut Lanes<T>,
    position: usize,
    elements: &[T],
    combine: impl Fn(T, T) -> T,
) {
    let first = position % LANES;
    let (head, rest) = elements.split_at(((LANES - first) % LANES).min(elements.len()));
    let (blocks, rest) = rest.as_chunks::<{ CHUNKS * LANES }>();
    let chunks = rest.chunks_exact(LANES);
    let tail = chunks.remainder();
    for (lane, &element) in lanes[first..].iter_mut().zip(head) {
        *lane = combine(*lane, element);
    }
    for block in blocks {
        let mut lane = 0;
        while lane < LANES {
            let (mut combined, mut chunk) = (lanes[lane], 0);
            while chunk < CHUNKS {
                combined = combine(combined, block[chunk * LANES + lane]);
                chunk += 1;
            }
            lanes[lane] = combined;
            lane += 1;
        }
    }
    for chunk in chunks {
        for (lane, &element) in lanes.iter_mut().zip(chunk) {
            *lane = combine(*lane, element);
        }
    }
    for (lane, &element) in lanes.iter_mut().zip(tail) {
        *lane = combine(*lane, element);
    }
}

/// Combines the lanes of a part pairwise, and returns the result of the part.
#[inline(always)]
pub(crate) fn join_lanes<T: Copy>(mut lanes: Lanes<T>, combine: impl Fn(T, T) -> T) -> T {
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] = combine(lanes[lane], lanes[lane + width]);
        }
        width /= 2;
    }
    lanes[0]
}

/// Combines the elements of a part, which are at most [`PART`] neighbouring elements.
#[inline(always)]
fn part<T: Copy>(elements: &[T], start: T, combine: impl Fn(T, T) -> T + Copy) -> T {
    let mut lanes = [start; LANES];
    into_lanes(&mut lanes, 0, elements, combine);
    join_lanes(lanes, combine)
}

/// Combines the elements of each row of `length` elements.
#[inline(always)]
pub(crate) fn rows<T: ArrayElement>(
    results: &mut [T],
    elements: &[T],
    length: usize,
    start: T,
    combine: impl Fn(T, T) -> T + Copy,
) {
    if length <= LANES {
        return short_rows(results, elements, length, start, combine);
    }
    for (result, elements) in results.iter_mut().zip(elements.chunks_exact(length)) {
        *result = row(elements, start, combine);
    }
}

/// Combines the elements of rows that are at most as long as a part has lanes, several rows at a time. Lanes that no element of a row
/// has change nothing, so only the others are combined.
#[inline(always)]
fn short_rows<T: ArrayElement>(
    results: &mut [T],
    elements: &[T],
    length: usize,
    start: T,
    combine: impl Fn(T, T) -> T + Copy,
) {
    let mut lanes = [[start; ROWS]; LANES];
    for (results, elements) in results.chunks_mut(ROWS).zip(elements.chunks(ROWS * length)) {
        for (lane, numbers) in lanes[..length].iter_mut().enumerate() {
            for (number, row) in numbers.iter_mut().zip(elements.chunks_exact(length)) {
                *number = combine(start, row[lane]);
            }
        }
        let mut width = length.next_power_of_two();
        lanes[length..width].fill([start; ROWS]);
        while width > 1 {
            width /= 2;
            let (left, right) = lanes.split_at_mut(width);
            for (left, right) in left.iter_mut().zip(right) {
                for (left, &right) in left.iter_mut().zip(&*right) {
                    *left = combine(*left, right);
                }
            }
        }
        results.copy_from_slice(&lanes[0][..results.len()]);
    }
}

/// Combines the elements of a row of any length.
#[inline(always)]
pub(crate) fn row<T: ArrayElement>(
    elements: &[T],
    start: T,
    combine: impl Fn(T, T) -> T + Copy,
) -> T {
    let mut results: Option<Vec<T>> = None;
    // One loop for all levels, the last included, so that the code of a part is compiled once.
    loop {
        let elements = results.as_deref().unwrap_or(elements);
        let is_last = elements.len() <= PART;
        let mut last = [start];
        let mut shorter = if is_last {
            Vec::new()
        } else {
            reused(elements.len().div_ceil(PART))
        };
        let targets = if is_last { &mut last[..] } else { &mut shorter };
        // This is a loop because the compiler does not inline `collect`.
        for (result, elements) in targets.iter_mut().zip(elements.chunks(PART)) {
            *result = part(elements, start, combine);
        }
        if let Some(longer) = results.take() {
            give_back(longer);
        }
        if is_last {
            return last[0];
        }
        results = Some(shorter);
    }
}

/// Returns the number of rows in a block: about an eighth of all rows, but at least 32 and at most 64. Short blocks let
/// threads share even few rows. As in XLA, up to 32 rows are added one after the other.
pub(crate) fn block_rows(rows: usize) -> usize {
    (rows / 8).next_power_of_two().clamp(32, 64)
}

/// Combines each element of a row with the same element of `target`, and writes the result to `target`.
#[inline(always)]
pub(crate) fn into_row<T: Copy>(target: &mut [T], row: &[T], combine: impl Fn(T, T) -> T) {
    for (target, &element) in target.iter_mut().zip(row) {
        *target = combine(*target, element);
    }
}

/// Reduces several rows, element by element, to a single row, and writes it to `target`. At least one row must exist,
/// and each row must be as long as `target`. If `is_block`, the rows are a block of more rows.
#[inline(always)]
pub(crate) fn columns<T: ArrayElement>(
    target: &mut [T],
    rows: &[T],
    is_block: bool,
    start: T,
    combine: impl Fn(T, T) -> T + Copy,
) {
    let width = target.len();
    let mut results: Option<Vec<T>> = None;
    // One loop for all levels, the last included, as in `row`.
    loop {
        let rows = results.as_deref().unwrap_or(rows);
        let block = if is_block {
            rows.len()
        } else {
            block_rows(rows.len() / width) * width
        };
        let is_last = rows.len() <= block;
        let mut shorter = if is_last {
            Vec::new()
        } else {
            reused(rows.len().div_ceil(block) * width)
        };
        let targets = if is_last { &mut *target } else { &mut shorter };
        for (result, rows) in targets.chunks_exact_mut(width).zip(rows.chunks(block)) {
            result.fill(start);
            rows.chunks_exact(width)
                .for_each(|row| into_row(result, row, combine));
        }
        if let Some(longer) = results.take() {
            give_back(longer);
        }
        if is_last {
            return;
        }
        results = Some(shorter);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns numbers whose rounded sum depends on the order of the additions.
    fn noise(count: usize) -> Vec<f32> {
        let number = |n: usize| ((n * 7919 + n / 13) % 1009) as f32 * 0.37 - 180.0;
        (0..count).map(number).collect()
    }

    fn plus(left: f32, right: f32) -> f32 {
        left + right
    }

    #[test]
    fn folds_have_names() {
        let names = [Fold::Sum, Fold::Max, Fold::Min].map(Fold::name);
        assert_eq!(names, ["sum", "max", "min"]);
    }

    #[test]
    fn parts_may_be_added_piecewise() {
        let elements = noise(PART);
        let whole = part(&elements, 0.0, plus);
        for cuts in [[1, 2], [31, 33], [7, 512], [500, 1000], [0, PART]] {
            let mut lanes = [0.0; LANES];
            for (from, to) in [(0, cuts[0]), (cuts[0], cuts[1]), (cuts[1], PART)] {
                into_lanes(&mut lanes, from, &elements[from..to], plus);
            }
            assert_eq!(join_lanes(lanes, plus).to_bits(), whole.to_bits());
        }
    }

    #[test]
    fn other_columns_change_no_order() {
        let (rows, width) = (100, 3);
        let numbers = noise(rows * width);
        let mut sums = vec![0.0; width];
        columns(&mut sums, &numbers, false, 0.0, plus);
        for (column, sum) in sums.iter().enumerate() {
            let of_column = numbers.iter().skip(column).step_by(width);
            let mut alone = [0.0];
            columns(
                &mut alone,
                &of_column.copied().collect::<Vec<f32>>(),
                false,
                0.0,
                plus,
            );
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
                rows(&mut sums, &elements, length, 0.0, plus);
                for (sum, row) in sums.iter().zip(elements.chunks(length)) {
                    assert_eq!(sum.to_bits(), part(row, 0.0, plus).to_bits());
                }
            }
        }
    }

    #[test]
    fn rows_and_columns_add_each_element_once() {
        for count in [0, 1, 31, 32, 33, 1024, 1025, 5000, 1_100_000] {
            let ones = vec![1_i64; count];
            let sum = row(&ones, 0, |left, right| left + right);
            assert_eq!(usize::try_from(sum), Ok(count));
        }
        for (rows, width) in [(1, 3), (8, 2), (9, 2), (63, 5), (513, 1), (5000, 3)] {
            let numbers: Vec<u32> = (0..).take(rows * width).collect();
            let mut sums = vec![0; width];
            columns(&mut sums, &numbers, false, 0, u32::wrapping_add);
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
            columns(&mut sums, &numbers, false, 0.0, plus);
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
        columns(&mut sums, &tenths, false, 0.0, plus);
        for total in [row(&tenths, 0.0, plus), sums[0] * 2.0] {
            assert!((f64::from(total) - expected).abs() <= 2.0, "{total}");
        }
    }
}
