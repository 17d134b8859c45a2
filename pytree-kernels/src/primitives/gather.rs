//! Reads and updates of arrays at indices, block by block.

use std::sync::Arc;

use pytree_base::bug::bug;

use crate::base::array::{Array, Data, reused_bits, with_wide};
use crate::base::bits::{Bits, with_bits};
use crate::base::dtype::{AbstractArray, ArrayElement, DType};
use crate::base::instructions::arch;
use crate::base::narrow::{Half, narrowed, widened};
use crate::base::shape::Shape;
use crate::base::threads::{self, share, share_chunks};
use crate::primitives::reduction::{Number, with_number};

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
/// nearest end, as JAX does.
pub fn gather(operand: &Array, indices: &Array, blocks: &Blocks, shape: Shape) -> Array {
    let indices = widened(indices);
    let dtype = operand.dtype();
    with_bits!(dtype, T => {
        Array::from_bits(dtype, shape, gather_blocks(dtype, operand.bits::<T>(), &indices, blocks))
    })
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
    let indices = widened(indices);
    if let Some(half) = Half::of(updates.dtype()) {
        if blocks.after < LONG {
            let wide = widened(updates);
            let sums = scatter_add(&wide, &indices, outside, blocks, shape);
            return narrowed(&sums, updates.dtype());
        }
        let mut result = Array::zeros(&AbstractArray::new(updates.dtype(), shape));
        let positions = &mut Positions::new(&indices, blocks.length, outside);
        add_halves(half, result.bits_mut(), updates.bits(), positions, blocks);
        return result;
    }
    let mut result = Array::zeros(&AbstractArray::new(updates.dtype(), shape));
    with_number!(updates.dtype(), T => {
        let sums = T::of_mut(&mut result);
        scatter_blocks(sums, T::of(updates), (&indices, outside), blocks, <T as Number>::plus);
    });
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
    let indices = (&*indices, Outside::Drop);
    macro_rules! combine {
        ($combine:expr) => {
            with_wide!(dtype, T => {
                let elements = result.elements_mut::<T>();
                scatter_blocks(elements, updates.elements(), indices, blocks, $combine);
            })
        };
    }
    #[allow(
        clippy::eq_op,
        clippy::float_cmp,
        clippy::bool_comparison,
        reason = "only NaN differs from itself"
    )]
    match by {
        ScatterBy::Set => with_bits!(dtype, T => {
            let elements = result.bits_mut::<T>();
            scatter_blocks(elements, updates.bits(), indices, blocks, |_, update| update);
        }),
        ScatterBy::Multiply => combine!(Combined::times),
        ScatterBy::Max => combine!(|x, y| if x > y || x != x { x } else { y }),
        ScatterBy::Min => combine!(|x, y| if x < y || x != x { x } else { y }),
    }
    result
}

/// Elements that a scatter can combine.
trait Combined: ArrayElement {
    fn times(self, other: Self) -> Self;
}

macro_rules! combined {
    ($($float:ty),*; $($integer:ty),*) => {
        $(impl Combined for $float {
            fn times(self, other: Self) -> Self {
                self * other
            }
        })*
        $(impl Combined for $integer {
            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
        })*
    };
}
combined!(f32, f64; i32, i64, u32);

impl Combined for bool {
    fn times(self, other: Self) -> Self {
        self && other
    }
}

/// The number of positions that are computed together.
const BLOCK: usize = 1024;

/// The positions of indices on an axis. They are computed block by block, because all of them would take as much memory as the
/// indices, or more.
struct Positions<'a> {
    indices: &'a Array,
    /// The length of the axis.
    length: usize,
    outside: Outside,
    /// The number of the first index whose position was computed.
    first: usize,
    computed: Vec<usize>,
}

impl<'a> Positions<'a> {
    fn new(indices: &'a Array, length: usize, outside: Outside) -> Self {
        Self {
            indices,
            length,
            outside,
            first: 0,
            computed: Vec::new(),
        }
    }

    /// Returns the positions of `count` indices, beginning with the index `start`. The position of a dropped
    /// update is out of range.
    fn at(&mut self, start: usize, count: usize) -> &[usize] {
        if start < self.first || start + count > self.first + self.computed.len() {
            let end = start + count;
            self.first = start;
            self.computed.resize(end - start, 0);
            match self.indices.data() {
                Data::I32(indices) => self.compute(&indices[start..end]),
                Data::I64(indices) => self.compute(&indices[start..end]),
                Data::U32(indices) => self.compute(&indices[start..end]),
                _ => bug(format_args!(
                    "integer indices, found {}",
                    self.indices.dtype()
                )),
            }
        }
        &self.computed[start - self.first..][..count]
    }

    fn compute<T: Copy + Into<i64>>(&mut self, indices: &[T]) {
        let length = i64::try_from(self.length).unwrap_or(i64::MAX);
        let range = match self.outside {
            Outside::Clamp => (0, (length - 1).max(0)),
            Outside::Drop => (-1, i64::MAX),
        };
        let computed = &mut self.computed[..];
        arch().dispatch(Block {
            indices,
            length,
            range,
            computed,
        });
    }
}

/// The positions of a block of indices.
struct Block<'a, T> {
    indices: &'a [T],
    length: i64,
    /// The least and the greatest position. The position -1 becomes the greatest number.
    range: (i64, i64),
    computed: &'a mut [usize],
}

impl<T: Copy + Into<i64>> pulp::WithSimd for Block<'_, T> {
    type Output = ();

    #[inline(always)]
    #[allow(
        clippy::inline_always,
        reason = "only inlined code is compiled for the wide instruction sets"
    )]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        for (position, &index) in self.computed.iter_mut().zip(self.indices) {
            let index: i64 = index.into();
            let from_start = index + if index < 0 { self.length } else { 0 };
            let inside = from_start.max(self.range.0).min(self.range.1);
            *position = usize::try_from(inside).unwrap_or(usize::MAX);
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

/// Copies the blocks of `source` at the indices. A block has the `after` elements at one position of the axis.
fn gather_blocks<T: Bits>(dtype: DType, source: &[T], indices: &Array, blocks: &Blocks) -> Vec<T> {
    let Blocks {
        batch,
        before,
        after,
        length,
    } = *blocks;
    let per_row = indices.info.len() / batch.max(1);
    let size = batch * before * per_row * after;
    let mut result = reused_bits(dtype, size);
    if size == 0 {
        return result;
    }
    let per_part = PART.div_ceil(after);
    share_chunks(size, &mut result, per_part * after, &|part, mut targets| {
        let mut positions = Positions::new(indices, length, Outside::Clamp);
        let mut block = part * per_part;
        while !targets.is_empty() {
            let (row, start) = (block / per_row, block % per_row);
            let count = (per_row - start).min(BLOCK).min(targets.len() / after);
            let (target, rest) = targets.split_at_mut(count * after);
            let source = &source[row * length * after..][..length * after];
            let positions = positions.at(row / before * per_row + start, count);
            if after == 1 {
                for (target, &position) in target.iter_mut().zip(positions) {
                    *target = source[position];
                }
            } else {
                for (target, &position) in target.chunks_exact_mut(after).zip(positions) {
                    target.copy_from_slice(&source[position * after..][..after]);
                }
            }
            (block, targets) = (block + count, rest);
        }
    });
    result
}

/// The least number of elements of a long block. The sums of long blocks in half precision are computed block by block: the order of the
/// updates then takes less memory than the updates.
const LONG: usize = 16;

/// Adds each block of half-precision `updates` to the zeros of `result` at the update's position. Only the sums of one position are wide
/// at a time, and only positions with updates are written.
fn add_halves(
    half: Half,
    result: &mut [u16],
    updates: &[u16],
    positions: &mut Positions<'_>,
    blocks: &Blocks,
) {
    let Blocks {
        batch,
        before,
        after,
        length,
    } = *blocks;
    let per_row = positions.indices.info.len() / batch.max(1);
    if updates.is_empty() || result.is_empty() {
        return;
    }
    let [mut sums, mut terms] = [(); 2].map(|()| vec![0.0; after]);
    for example in 0..batch {
        let mut order: Vec<(usize, usize)> = Vec::with_capacity(per_row);
        for start in (0..per_row).step_by(BLOCK) {
            let count = (per_row - start).min(BLOCK);
            let found = positions.at(example * per_row + start, count);
            order.extend(found.iter().copied().zip(start..));
        }
        order.retain(|&(position, _)| position < length);
        order.sort_unstable();
        for row in example * before..(example + 1) * before {
            let updates = &updates[row * per_row * after..][..per_row * after];
            let result = &mut result[row * length * after..][..length * after];
            for same in order.chunk_by(|one, next| one.0 == next.0) {
                sums.fill(0.0);
                for &(_, update) in same {
                    half.widen(&updates[update * after..][..after], &mut terms);
                    let pairs = sums.iter_mut().zip(&terms);
                    pairs.for_each(|(sum, term)| *sum += term);
                }
                half.narrow(&sums, &mut result[same[0].0 * after..][..after]);
            }
        }
    }
}

/// Combines each block of `updates` with the block of `result` at the update's position. Threads share the rows of the result, or the
/// positions of a row with long blocks. Each thread visits all updates of its row in their order, and combines those of its own positions.
fn scatter_blocks<T: Copy + Send + Sync>(
    result: &mut [T],
    updates: &[T],
    (indices, outside): (&Array, Outside),
    blocks: &Blocks,
    combine: impl Fn(T, T) -> T + Sync,
) {
    let Blocks {
        batch,
        before,
        after,
        length,
    } = *blocks;
    let per_row = indices.info.len() / batch.max(1);
    if updates.is_empty() || result.is_empty() {
        return;
    }
    let is_divided = batch * before < threads::count() && after >= LONG;
    let ranges = if is_divided { threads::count() } else { 1 };
    let range = length.div_ceil(ranges);
    let rows = result.chunks_exact_mut(length * after).enumerate();
    let parts = rows.flat_map(|(row, elements)| {
        let parts = elements.chunks_mut(range * after).enumerate();
        parts.map(move |(part, elements)| (row, part * range, elements))
    });
    share(updates.len(), parts.collect(), |(row, first, elements)| {
        let elements: &mut [T] = elements;
        let mut positions = Positions::new(indices, length, outside);
        for start in (0..per_row).step_by(BLOCK) {
            let count = (per_row - start).min(BLOCK);
            let positions = positions.at(row / before * per_row + start, count);
            let updates = &updates[(row * per_row + start) * after..][..count * after];
            if after == 1 {
                for (&position, &update) in positions.iter().zip(updates) {
                    if let Some(element) = elements.get_mut(position) {
                        *element = combine(*element, update);
                    }
                }
                continue;
            }
            for (&position, update) in positions.iter().zip(updates.chunks_exact(after)) {
                let position = position.wrapping_sub(first);
                if position >= elements.len() / after {
                    continue;
                }
                let target = &mut elements[position * after..][..after];
                for (element, &update) in target.iter_mut().zip(update) {
                    *element = combine(*element, update);
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Enough updates of few positions for several threads, some out of range. The order of the sums matters.
    #[test]
    fn updates_are_combined_in_order() {
        for (before, after, length) in [(1, 1, 1000), (1, 16, 1001), (2, 1, 7), (5, 2, 100)] {
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
}
