//! Reads and updates of arrays at indices, block by block.

use std::sync::Arc;

use pytree_base::bug::bug;

use crate::base::array::{Array, Data, reused_bits, with_wide};
use crate::base::bits::{Bits, with_bits};
use crate::base::dtype::{AbstractArray, ArrayElement, DType};
use crate::base::narrow::widened;
use crate::base::shape::Shape;
use crate::primitives::reduction::{Number, with_number};

/// How an update is combined with an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScatterBy {
    /// The product.
    Multiply,
    /// The maximum.
    Max,
    /// The minimum.
    Min,
}

/// Returns the blocks of `operand` at the indices, as an array of the given shape.
pub fn gather(operand: &Array, indices: &Array, blocks: &Blocks, shape: Shape) -> Array {
    let positions = positions(indices, blocks.length);
    let dtype = operand.dtype();
    with_bits!(dtype, T => {
        Array::from_bits(dtype, shape, gather_blocks(dtype, operand.bits::<T>(), &positions, blocks))
    })
}

/// Returns zeros of the given shape, to which each block of `updates` is added at its index.
pub fn scatter_add(updates: &Array, indices: &Array, blocks: &Blocks, shape: Shape) -> Array {
    let positions = positions(indices, blocks.length);
    let mut result = Array::reused(&AbstractArray::new(updates.dtype(), shape));
    with_number!(updates.dtype(), T => {
        let sums = T::of_mut(&mut result);
        sums.fill(T::default());
        scatter_blocks(sums, T::of(updates), &positions, blocks, <T as Number>::plus);
    });
    result
}

/// Combines each block of `updates` with the block of `operand` at its index. The result overwrites the operand if it has
/// no other handle.
pub fn scatter(
    by: ScatterBy,
    operand: Arc<Array>,
    indices: &Array,
    updates: &Array,
    blocks: &Blocks,
) -> Array {
    let positions = positions(indices, blocks.length);
    let mut result = Array {
        info: operand.info.clone(),
        data: Array::into_data(operand),
    };
    with_wide!(result.dtype(), T => {
        combined(by, result.elements_mut::<T>(), updates.elements(), &positions, blocks);
    });
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

#[allow(clippy::eq_op, reason = "only NaN differs from itself")]
fn combined<T: Combined>(
    by: ScatterBy,
    operand: &mut [T],
    updates: &[T],
    positions: &[usize],
    blocks: &Blocks,
) {
    match by {
        ScatterBy::Multiply => scatter_blocks(operand, updates, positions, blocks, T::times),
        ScatterBy::Max => scatter_blocks(operand, updates, positions, blocks, |x, y| {
            if x > y || x != x { x } else { y }
        }),
        ScatterBy::Min => scatter_blocks(operand, updates, positions, blocks, |x, y| {
            if x < y || x != x { x } else { y }
        }),
    }
}

/// Converts an array of indices to positions on an axis of length `length`. Indices out of range are clamped to the
/// nearest end, as JAX does.
fn positions(indices: &Array, length: usize) -> Vec<usize> {
    let last = length.saturating_sub(1);
    let position = |index: i64| {
        let distance = usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX);
        if index < 0 {
            length.saturating_sub(distance)
        } else {
            distance.min(last)
        }
    };
    match &widened(indices).data {
        Data::I32(elements) => elements
            .iter()
            .map(|&index| position(index.into()))
            .collect(),
        Data::I64(elements) => elements.iter().map(|&index| position(index)).collect(),
        Data::U32(elements) => elements
            .iter()
            .map(|&index| usize::try_from(index).unwrap_or(usize::MAX).min(last))
            .collect(),
        _ => bug(format_args!("integer indices, found {}", indices.dtype())),
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

/// Copies the blocks of `source` at `positions`. A block has the `after` elements at one position of the axis.
fn gather_blocks<T: Bits>(
    dtype: DType,
    source: &[T],
    positions: &[usize],
    blocks: &Blocks,
) -> Vec<T> {
    let Blocks {
        batch,
        before,
        after,
        length,
    } = *blocks;
    let per_batch = positions.len() / batch.max(1);
    let mut result = reused_bits(dtype, before * after * positions.len());
    let mut targets = result.chunks_exact_mut(after.max(1));
    for example in 0..batch {
        let positions = &positions[example * per_batch..][..per_batch];
        for row in 0..before {
            let base = (example * before + row) * length;
            let source = &source[base * after..][..length * after];
            if after == 1 {
                positions
                    .iter()
                    .zip(&mut targets)
                    .for_each(|(&position, target)| target[0] = source[position]);
                continue;
            }
            for (&position, target) in positions.iter().zip(&mut targets) {
                target.copy_from_slice(&source[position * after..][..after]);
            }
        }
    }
    result
}

/// Combines each block of `updates` with the block of `result` at the update's position.
fn scatter_blocks<T: ArrayElement>(
    result: &mut [T],
    updates: &[T],
    positions: &[usize],
    blocks: &Blocks,
    combine: impl Fn(T, T) -> T,
) {
    let Blocks {
        batch,
        before,
        after,
        length,
    } = *blocks;
    let per_batch = positions.len() / batch.max(1);
    let mut updates = updates.chunks_exact(after.max(1));
    for example in 0..batch {
        let positions = &positions[example * per_batch..][..per_batch];
        for row in 0..before {
            let base = (example * before + row) * length;
            if after == 1 {
                let result = &mut result[base..base + length];
                for (&position, update) in positions.iter().zip(&mut updates) {
                    result[position] = combine(result[position], update[0]);
                }
                continue;
            }
            for (&position, update) in positions.iter().zip(&mut updates) {
                let target = &mut result[(base + position) * after..][..after];
                target
                    .iter_mut()
                    .zip(update)
                    .for_each(|(target, &update)| *target = combine(*target, update));
            }
        }
    }
}
