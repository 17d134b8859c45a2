//! Kernels that read and update memory at indices, block by block.

use pytree_core::bug::bug;
use pytree_kernels::base::array::{Array, Data, reused_bits};
use pytree_kernels::base::bits::Bits;
use pytree_kernels::base::dtype::{ArrayElement, DType};
use pytree_kernels::base::narrow::{Extension, widened};

/// Converts an array of indices to positions on an axis of length `length`. Indices out of range are clamped to the
/// nearest end, as JAX does.
pub(super) fn positions(indices: &Array, length: usize) -> Vec<usize> {
    let last = length.saturating_sub(1);
    let position = |index: i64| {
        let distance = usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX);
        if index < 0 {
            length.saturating_sub(distance)
        } else {
            distance.min(last)
        }
    };
    match &widened(indices, Extension::ByType).data {
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
pub(super) struct Blocks {
    pub(super) batch: usize,
    pub(super) before: usize,
    pub(super) after: usize,
    pub(super) length: usize,
}

/// Copies the blocks of `source` at `positions`. A block has the `after` elements at one position of the axis.
pub(super) fn gather_blocks<T: Bits>(
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
pub(super) fn scatter_blocks<T: ArrayElement>(
    mut result: Vec<T>,
    updates: &[T],
    positions: &[usize],
    blocks: &Blocks,
    combine: impl Fn(T, T) -> T,
) -> Vec<T> {
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
            for (&position, update) in positions.iter().zip(&mut updates) {
                let target = &mut result[(base + position) * after..][..after];
                target
                    .iter_mut()
                    .zip(update)
                    .for_each(|(target, &update)| *target = combine(*target, update));
            }
        }
    }
    result
}
