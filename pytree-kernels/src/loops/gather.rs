//! Reads and updates of arrays at indices, block by block.

mod rows;

use std::iter::repeat;
use std::sync::Arc;

use pytree_base::bug::bug;

use crate::base::array::Array;
use crate::base::bits::{Bits, with_bits};
use crate::base::combine::{Combine, Max, Min, Number, Prod, Sum, with_number, with_ordered};
use crate::base::data::Data;
use crate::base::dtype::{AbstractArray, DType};
use crate::base::fold::into_row;
use crate::base::instructions::leaf;
use crate::base::narrow::{Half, narrowed, widened};
use crate::base::prefetch::{prefetch, request};
use crate::base::shape::Shape;
use crate::base::threads::{self, share_rows};

pub use self::rows::{add_rows, distinct_positions, sum_of_rows};

/// How an update is combined with an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScatterBy {
    /// The update. If several updates have the same index, it is the last one.
    Set,
    /// The product.
    Multiply,
    /// The maximum.
    Max,
    /// The minimum.
    Min,
}

/// What a scatter does with an update whose index is out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outside {
    /// The update is combined with the element at the nearest end.
    Clamp,
    /// The update is ignored.
    Drop,
}

/// Returns the blocks of `operand` at the indices, as an array of the given shape. Indices out of range are clamped to the
/// nearest end, or their blocks are zeros.
pub fn gather(
    operand: &Array,
    indices: &Array,
    outside: Outside,
    blocks: &Blocks,
    shape: Shape,
) -> Array {
    let indices = widened(indices);
    let indexed = Indexed::new(blocks, &indices, outside);
    let mut result = Array::reused(&AbstractArray::new(operand.dtype(), shape));
    with_bits!(operand.dtype(), T => {
        gather_blocks(operand.bits::<T>(), result.bits_mut(), &indexed);
    });
    result
}

/// Returns the elements of `operand` along an axis at the indices, whose other axes are those of the operand.
pub fn gather_along(operand: &Array, indices: &Array, axis: usize) -> Array {
    let (length, count) = (operand.shape()[axis], indices.shape()[axis]);
    let inner: usize = operand.shape()[axis + 1..].iter().product();
    let wide = widened(indices);
    let blocks = Blocks {
        batch: 1,
        before: 1,
        after: 1,
        length,
    };
    let indexed = Indexed::new(&blocks, &wide, Outside::Clamp);
    let mut result = Array::reused(&AbstractArray::new(operand.dtype(), indices.shape()));
    with_bits!(operand.dtype(), T => {
        let (elements, result) = (operand.bits::<T>(), result.bits_mut());
        indexed.share(result, inner, PART, &|row, first, targets, positions| {
            let elements = &elements[row / count * length * inner + first..];
            let positions = positions.at(0, row * inner + first, targets.len());
            for (column, (target, &position)) in targets.iter_mut().zip(positions).enumerate() {
                *target = elements[position * inner + column];
            }
        });
    });
    result
}

/// Returns zeros of the given shape, to which each block of `updates` is added at its index. The updates are half-precision floats, or
/// have a dtype in which kernels compute. Sums of half-precision floats are rounded once, at their end.
pub fn scatter_add(
    updates: &Array,
    indices: &Array,
    outside: Outside,
    blocks: &Blocks,
    shape: Shape,
) -> Array {
    let wide = widened(indices);
    let indexed = Indexed::new(blocks, &wide, outside);
    let half = Half::of(updates.dtype());
    if half.is_some() && blocks.after < LONG {
        let sums = scatter_add(&widened(updates), indices, outside, blocks, shape);
        return narrowed(&sums, updates.dtype());
    }
    let mut result = Array::zeros(&AbstractArray::new(updates.dtype(), shape));
    match half {
        Some(half) => add_halves(half, result.bits_mut(), updates.bits(), &indexed),
        None => with_number!(updates.dtype(), T => {
            combine_blocks::<T, Sum>(T::of_mut(&mut result), T::of(updates), &indexed);
        }),
    }
    result
}

/// Combines each block of `updates` with the block of `operand` at its index, if the index is in range. The result overwrites the
/// operand if it has no other handle. [`ScatterBy::Set`] accepts narrow dtypes.
pub fn scatter(
    by: ScatterBy,
    operand: Arc<Array>,
    indices: &Array,
    updates: &Array,
    blocks: &Blocks,
) -> Array {
    let (indices, dtype) = (widened(indices), operand.dtype());
    let info = operand.info.clone();
    let mut result = Array::from_data(info, Array::into_data(operand));
    let indexed = Indexed::new(blocks, &indices, Outside::Drop);
    macro_rules! combine {
        ($with:ident, $combination:ident) => {
            $with!(dtype, T => {
                combine_blocks::<T, $combination>(T::of_mut(&mut result), T::of(updates), &indexed);
            })
        };
    }
    match by {
        ScatterBy::Set => with_bits!(dtype, T => {
            let elements = result.bits_mut::<T>();
            scatter_blocks(elements, updates.bits(), &indexed, <[T]>::copy_from_slice);
        }),
        ScatterBy::Multiply => combine!(with_number, Prod),
        ScatterBy::Max => combine!(with_ordered, Max),
        ScatterBy::Min => combine!(with_ordered, Min),
    }
    result
}

/// The number of positions that a scatter computes together.
const BLOCK: usize = 1024;

/// A function of a part of a row: the number of the row, the number of the first block of the part in the row, and the part.
type Run<'a, T> = dyn Fn(usize, usize, &mut [T], &mut Positions<'_>) + Sync + 'a;

/// The indices of blocks.
struct Indexed<'a> {
    blocks: Blocks,
    indices: &'a Array,
    /// The number of indices of an example.
    per_row: usize,
    outside: Outside,
}

impl<'a> Indexed<'a> {
    fn new(blocks: &Blocks, indices: &'a Array, outside: Outside) -> Self {
        Self {
            blocks: *blocks,
            indices,
            per_row: indices.info.len() / blocks.batch.max(1),
            outside,
        }
    }

    /// Runs a function on parts of the rows of a target, which have `length` blocks. Threads share the blocks, of which each takes `count`
    /// at a time.
    fn share<T: Send>(&self, target: &mut [T], length: usize, count: usize, run: &Run<'_, T>) {
        let Blocks {
            batch,
            before,
            after,
            ..
        } = self.blocks;
        let moved = batch * before * self.per_row * after;
        if moved == 0 || target.is_empty() {
            return;
        }
        share_rows(moved, target, after, count, &|mut block, mut targets| {
            let mut positions = Positions {
                indexed: self,
                first: 0,
                computed: Vec::new(),
            };
            while !targets.is_empty() {
                let (row, first) = (block / length, block % length);
                let count = (length - first).min(targets.len() / after);
                let (target, rest) = targets.split_at_mut(count * after);
                run(row, first, target, &mut positions);
                (block, targets) = (block + count, rest);
            }
        });
    }

    /// Returns how many blocks of its result a part of a scatter has: some rows, or positions of a row with long blocks. Each part visits
    /// all updates of its rows.
    fn scattered(&self) -> usize {
        let Blocks {
            batch,
            before,
            after,
            length,
        } = self.blocks;
        if batch * before < threads::count() && after >= LONG {
            return length.div_ceil(threads::count());
        }
        length * PART.div_ceil((self.per_row * after).max(1))
    }
}

/// The positions of indices on their axis. They are computed block by block, because all of them would take as much memory as the
/// indices, or more.
struct Positions<'a> {
    indexed: &'a Indexed<'a>,
    /// The number of the first index whose position was computed.
    first: usize,
    computed: Vec<usize>,
}

impl Positions<'_> {
    /// Returns the positions of `count` indices of a row, beginning with the index `start`. The position of a dropped
    /// update is out of range.
    fn at(&mut self, row: usize, start: usize, count: usize) -> &[usize] {
        let indices = self.indexed.indices;
        let start = row / self.indexed.blocks.before * self.indexed.per_row + start;
        if start < self.first || start + count > self.first + self.computed.len() {
            let end = start + count;
            self.first = start;
            self.computed.resize(end - start, 0);
            match indices.data() {
                Data::I32(indices) => self.compute(&indices[start..end]),
                Data::I64(indices) => self.compute(&indices[start..end]),
                Data::U32(indices) => self.compute(&indices[start..end]),
                _ => bug(format_args!("integer indices, found {}", indices.dtype())),
            }
        }
        &self.computed[start - self.first..][..count]
    }

    /// Runs a function on the updates of a row, some at a time, with their positions and the number of the first of them.
    fn each(&mut self, row: usize, mut run: impl FnMut(&[usize], usize)) {
        let per_row = self.indexed.per_row;
        for start in (0..per_row).step_by(BLOCK) {
            let positions = self.at(row, start, (per_row - start).min(BLOCK));
            run(positions, row * per_row + start);
        }
    }

    fn compute<T: Copy + Into<i64>>(&mut self, indices: &[T]) {
        let length = i64::try_from(self.indexed.blocks.length).unwrap_or(i64::MAX);
        // The least and the greatest position.
        let range = match self.indexed.outside {
            Outside::Clamp => (0, (length - 1).max(0)),
            Outside::Drop => (-1, i64::MAX),
        };
        let computed = &mut self.computed[..];
        leaf! {
            for (position, &index) in computed.iter_mut().zip(indices) {
                let index: i64 = index.into();
                let from_start = index + if index < 0 { length } else { 0 };
                let inside = from_start.max(range.0).min(range.1);
                // The position -1 becomes the greatest number.
                *position = usize::try_from(inside).unwrap_or(usize::MAX);
            }
        }
    }
}

/// The memory layout of the operands: `batch × before × (length or indices) × after`.
#[derive(Clone, Copy, Debug)]
pub struct Blocks {
    /// The number of examples of a batch, each with its own indices.
    pub batch: usize,
    /// The number of positions on the axes before the indexed axis.
    pub before: usize,
    /// The number of positions on the axes after the indexed axis.
    pub after: usize,
    /// The length of the indexed axis.
    pub length: usize,
}

/// The number of elements that one part of a gather copies, and a rough time in nanoseconds to copy one.
const PART: usize = 1 << 14;

/// A longer block is combined by a call.
const NARROW: usize = 16;

/// Runs an expression with the number of elements of a block as the constant `N`, if it is one of the usual small numbers. So a block
/// is moved by some instructions, without a call.
macro_rules! with_narrow {
    ($after:expr, $length:ident => $narrow:expr, $other:expr) => {
        with_narrow!(@each $after, $length, $narrow, $other; 1, 2, 3, 4, 8, 16)
    };
    (@each $after:expr, $length:ident, $narrow:expr, $other:expr; $($narrow_length:literal),*) => {
        match $after {
            $($narrow_length => {
                const $length: usize = $narrow_length;
                $narrow
            })*
            _ => $other,
        }
    };
}

/// Copies the blocks of `source` at the indices. A block has the `after` elements at one position of the axis.
fn gather_blocks<T: Bits>(source: &[T], target: &mut [T], indexed: &Indexed<'_>) {
    let Blocks { after, length, .. } = indexed.blocks;
    let (per_row, count) = (indexed.per_row, PART.div_ceil(after.max(1)));
    indexed.share(target, per_row, count, &|row, first, targets, positions| {
        let source = &source[row * length * after..][..length * after];
        let positions = positions.at(row, first, targets.len() / after);
        with_narrow!(after, N => {
            let (source, targets) = (source.as_chunks::<N>().0, targets.as_chunks_mut().0);
            for (target, &position) in targets.iter_mut().zip(positions) {
                match source.get(position) {
                    Some(block) => *target = *block,
                    None => *target = [T::default(); N],
                }
            }
        }, {
            let ahead = positions.iter().skip(AHEAD).map(Some).chain(repeat(None));
            let blocks = targets.chunks_exact_mut(after).zip(positions);
            for ((target, &position), next) in blocks.zip(ahead) {
                if let Some(next) = next.filter(|&&next| next < length) {
                    prefetch(&source[next * after..][..after.min(REQUESTED)]);
                }
                if position < length {
                    target.copy_from_slice(&source[position * after..][..after]);
                } else {
                    target.fill(T::default());
                }
            }
        });
    });
}

/// How many blocks ahead memory is requested, and how many elements of a block at most: the processor requests the others itself.
const AHEAD: usize = 8;
const REQUESTED: usize = 64;

/// The least number of elements of a long block. The sums of long blocks in half precision are wide part by part.
const LONG: usize = 16;

/// The number of sums in half precision that a thread computes at a time.
const WIDE: usize = 1 << 15;

/// Adds each block of half-precision `updates` to the zeros of `result` at the update's position. Only the sums of a part are wide at a
/// time, and only positions with updates are written.
fn add_halves(half: Half, result: &mut [u16], updates: &[u16], indexed: &Indexed<'_>) {
    let Blocks { after, length, .. } = indexed.blocks;
    let count = indexed.scattered().min(WIDE.div_ceil(after));
    indexed.share(result, length, count, &|row, first, result, positions| {
        let mut sums = vec![0.0; result.len()];
        let mut terms = vec![0.0; after];
        let mut has_update = vec![false; result.len() / after];
        positions.each(row, |positions, update| {
            let updates = updates[update * after..].chunks_exact(after);
            for (&position, update) in positions.iter().zip(updates) {
                let position = position.wrapping_sub(first);
                if let Some(has_update) = has_update.get_mut(position) {
                    *has_update = true;
                    half.widen(update, &mut terms);
                    let pairs = sums[position * after..].iter_mut().zip(&terms);
                    pairs.for_each(|(sum, term)| *sum += term);
                }
            }
        });
        let sums = sums.chunks_exact(after).zip(result.chunks_exact_mut(after));
        for ((sums, result), has_update) in sums.zip(has_update) {
            if has_update {
                half.narrow(sums, result);
            }
        }
    });
}

/// Combines each block of `updates` with the block of `result` at the update's position, in the order of the updates.
fn combine_blocks<T: Copy + Send + Sync, C: Combine<T>>(
    result: &mut [T],
    updates: &[T],
    indexed: &Indexed<'_>,
) {
    if indexed.blocks.after <= NARROW {
        scatter_blocks(result, updates, indexed, |target, update| {
            let elements = target.iter_mut().zip(update);
            elements.for_each(|(target, update)| *target = C::combine(*target, *update));
        });
    } else {
        scatter_blocks(result, updates, indexed, into_row::<T, C>);
    }
}

/// Applies a function to each block of `updates` and the block of `result` at the update's position, in the order of the updates.
fn scatter_blocks<T: Copy + Send + Sync>(
    result: &mut [T],
    updates: &[T],
    indexed: &Indexed<'_>,
    write: impl Fn(&mut [T], &[T]) + Sync,
) {
    let Blocks { after, length, .. } = indexed.blocks;
    let count = indexed.scattered();
    indexed.share(result, length, count, &|row, first, result, positions| {
        let count = result.len() / after;
        positions.each(row, |positions, update| {
            let updates = &updates[update * after..];
            let ahead = |number: usize| Some(positions.get(number + AHEAD)?.wrapping_sub(first));
            let own = positions
                .iter()
                .map(|position| position.wrapping_sub(first))
                .enumerate();
            with_narrow!(after, N => {
                let (result, updates) = (result.as_chunks_mut::<N>().0, updates.as_chunks::<N>().0);
                for ((number, position), update) in own.zip(updates) {
                    // For single numbers, a request takes longer than it saves. A block may begin at the end of a cache line.
                    let next = if N > 1 { ahead(number) } else { None };
                    if let Some(next) = next.and_then(|next| result.get(next)) {
                        [next.first(), next.last()].into_iter().flatten().for_each(request);
                    }
                    if let Some(target) = result.get_mut(position) {
                        write(target, update);
                    }
                }
            }, {
                for ((number, position), update) in own.zip(updates.chunks_exact(after)) {
                    if let Some(next) = ahead(number).filter(|&next| next < count) {
                        prefetch(&result[next * after..][..after.min(REQUESTED)]);
                    }
                    if position < count {
                        write(&mut result[position * after..][..after], update);
                    }
                }
            });
        });
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Enough updates of few positions for several threads, some out of range. The order of the sums matters.
    #[test]
    fn updates_are_combined_in_order() {
        for (before, after, length) in [
            (1, 1, 1000),
            (1, 16, 1001),
            (1, 8, 999),
            (2, 1, 7),
            (2, 3, 500),
            (5, 2, 100),
            (1, 5, 800),
            (1, 20, 900),
        ] {
            let count = 9_000;
            let blocks = Blocks {
                batch: 1,
                before,
                after,
                length,
            };
            let indices: Vec<i32> = (0..)
                .map(|n: i32| n.wrapping_mul(7919) % 1100)
                .take(count)
                .collect();
            let update = |number: usize| 1.0 / (number % 1013 + 1) as f32;
            let updates: Vec<f32> = (0..before * count * after).map(update).collect();
            let mut expected = vec![0.0; before * length * after];
            for row in 0..before {
                for (number, &index) in indices.iter().enumerate() {
                    let from_start =
                        index as isize + if index < 0 { length.cast_signed() } else { 0 };
                    let Ok(position) = usize::try_from(from_start) else {
                        continue;
                    };
                    for column in 0..if position < length { after } else { 0 } {
                        expected[(row * length + position) * after + column] +=
                            updates[(row * count + number) * after + column];
                    }
                }
            }
            let shape = Shape::from(&[before, length, after][..]);
            let updates = Array::new([before, count, after], updates);
            let indices = Array::new([count], indices);
            let found = scatter_add(&updates, &indices, Outside::Drop, &blocks, shape);
            assert_eq!(found.elements::<f32>(), expected, "{blocks:?}");
        }
    }

    /// Lengths of blocks with loops of their own, and others.
    #[test]
    fn blocks_of_each_length_move() {
        for after in 1..20_usize {
            let (length, count) = (70, 3000);
            let blocks = Blocks {
                batch: 1,
                before: 1,
                after,
                length,
            };
            // Some positions are out of range.
            let position = |number: usize| (number * 7919 + number / 31) % (length + 3);
            let indices = Array::new(
                [count],
                (0..count)
                    .map(|it| i32::try_from(position(it)).unwrap())
                    .collect(),
            );
            let numbers = |count: usize| -> Vec<i32> { (0..).take(count * after).collect() };
            let (table, updates) = (numbers(length), numbers(count));
            let [of_table, of_updates] = [(length, &table), (count, &updates)]
                .map(|(rows, numbers)| Array::new([rows, after], numbers.clone()));
            let (mut expected, mut taken) = (table.clone(), Vec::new());
            for number in 0..count {
                let place = position(number) * after;
                if let Some(row) = expected.get_mut(place..place + after) {
                    taken.extend_from_slice(&table[place..place + after]);
                    row.copy_from_slice(&updates[number * after..][..after]);
                } else {
                    taken.resize(taken.len() + after, 0);
                }
            }
            let shape = Shape::from(&[count, after][..]);
            let found = gather(&of_table, &indices, Outside::Drop, &blocks, shape);
            assert_eq!(found.elements::<i32>(), taken, "{after}");
            let by = ScatterBy::Set;
            let set = scatter(by, Arc::new(of_table), &indices, &of_updates, &blocks);
            assert_eq!(set.elements::<i32>(), expected, "{after}");
        }
    }
}
