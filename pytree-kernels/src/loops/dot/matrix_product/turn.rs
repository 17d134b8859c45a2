//! The transposition of an operand before a product, or of a result after it, so that the kernels read contiguous elements.

use pytree_base::bug::expect_some;

use crate::base::dtype::ArrayElement;
use crate::base::numbers::{greatest_common_divisor, least_common_multiple};
use crate::base::target::{Target, Then, share_rows_then};

/// The number of elements that one thread transposes in a nanosecond.
const TURNED_PER_NANOSECOND: usize = 2;

/// The number of rows and columns of a block that is transposed at once.
const BLOCK: usize = 16;

/// The expected size of a line of a block, as text for the panic message of a library bug.
const WHOLE: &str = "a whole line of a block";

/// The columns of a matrix that are transposed, one after the other in memory. Neighbouring ones are `stride` elements apart.
#[derive(Clone, Copy)]
pub(super) struct Columns<'a, T> {
    pub(super) elements: &'a [T],
    pub(super) stride: usize,
}

/// Writes the rows of `source` as the `width` columns of `target`, and continues with regions of the result.
pub(super) fn turn<T: ArrayElement + Send + Sync>(
    source: Columns<'_, T>,
    target: Target<'_, T>,
    width: usize,
    threads: usize,
    then: Option<Then<'_>>,
) {
    let rows = target.elements() / width;
    let grain = then.map_or(1, |then| then.following.grain);
    let unit = least_common_multiple(BLOCK, grain / greatest_common_divisor(grain, width));
    let band = match unit {
        Some(unit) if rows >= 2 * BLOCK => rows.div_ceil(threads).next_multiple_of(unit),
        _ => rows,
    };
    let nanoseconds = target.elements() / TURNED_PER_NANOSECOND;
    share_rows_then(
        nanoseconds,
        target,
        width,
        band,
        then,
        &|start, elements| {
            turn_band(&source.elements[start..], source.stride, elements, width);
        },
    );
}

/// Writes the beginning of each row of `source` as a column of `target`, block by block. A row of a block fills a cache
/// line, so each line is read and written once.
fn turn_band<T: ArrayElement>(source: &[T], stride: usize, target: &mut [T], width: usize) {
    for (down, band) in target.chunks_mut(BLOCK * width).enumerate() {
        let height = band.len() / width;
        for across in (0..width).step_by(BLOCK) {
            let count = BLOCK.min(width - across);
            let source = &source[across * stride + down * BLOCK..];
            let target = &mut band[across..];
            if height == BLOCK && count == BLOCK {
                turn_block(source, stride, target, width);
            } else {
                for column in 0..count {
                    let line = &source[column * stride..][..height];
                    for (row, &element) in line.iter().enumerate() {
                        target[row * width + column] = element;
                    }
                }
            }
        }
    }
}

/// Transposes a whole block. All its lengths are constants, so the loops have no bounds checks and no calls.
fn turn_block<T: ArrayElement>(source: &[T], stride: usize, target: &mut [T], width: usize) {
    let mut block = [[T::default(); BLOCK]; BLOCK];
    for column in 0..BLOCK {
        let line: &[T; BLOCK] = expect_some(source[column * stride..].first_chunk(), WHOLE);
        for row in 0..BLOCK {
            block[row][column] = line[row];
        }
    }
    for (row, elements) in block.iter().enumerate() {
        let line = target[row * width..].first_chunk_mut::<BLOCK>();
        *expect_some(line, WHOLE) = *elements;
    }
}
