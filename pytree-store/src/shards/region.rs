//! Reads a region of a tensor from the parts that overlap it.
//!
//! Only the blocks with elements of the region are read, one after the other, and each block is compared with its checksum
//! before its numbers are used.

use std::convert::Infallible;
use std::ops::Range;

use pytree_core::ElementType;
use safetensors::tensor::Dtype;
use xxhash_rust::xxh3::Xxh3;

use crate::format::bytes::decode;
use crate::format::file::StoredFile;
use crate::report::error::CheckpointError;
use crate::shards::opening::{Piece, StoredFolder, damaged};
use crate::shards::part::{BLOCK, block_checksum};

impl StoredFolder {
    /// Writes the elements of a region in row-major order, as elements of the dtype `dtype` in the byte order of the host.
    /// `region` has a range for each axis and lies inside of the tensor. The dtype in the files is `dtype`, or both are
    /// floats.
    pub(crate) fn region(
        &mut self,
        name: &str,
        region: &[Range<usize>],
        dtype: ElementType,
        elements: &mut [u8],
    ) -> Result<(), CheckpointError> {
        self.each_run(name, region, &mut |stored, to, bytes| {
            let length = bytes.len() / (stored.bitsize() / 8) * dtype.bytes();
            let to = to * dtype.bytes();
            decode(stored, bytes, dtype, &mut elements[to..to + length]);
        })
    }

    /// Calls `each` with the dtype in the files, the position of a run of elements in the region, and the bytes of the run.
    fn each_run(
        &mut self,
        name: &str,
        region: &[Range<usize>],
        each: &mut dyn FnMut(Dtype, usize, &[u8]),
    ) -> Result<(), CheckpointError> {
        let Some(whole) = self.wholes.get(name) else {
            return Ok(());
        };
        let dtype = whole.dtype;
        let unit = dtype.bitsize() / 8;
        let overlapping: Vec<(Piece, Vec<Range<usize>>)> = whole
            .pieces
            .iter()
            .filter_map(|piece| Some((piece.clone(), overlap(&piece.ranges, region)?)))
            .collect();
        for (piece, common) in overlapping {
            let mut blocks = Blocks::new(&mut self.files[piece.file], &piece);
            runs(&piece.ranges, region, &common, |from, mut to, length| {
                blocks.read(from * unit, length * unit, &mut |bytes| {
                    each(dtype, to, bytes);
                    to += bytes.len() / unit;
                })
            })?;
        }
        Ok(())
    }

    /// Reads all blocks of all tensors, and compares their checksums.
    pub(crate) fn check_all(&mut self) -> Result<(), CheckpointError> {
        for whole in self.wholes.values() {
            for piece in &whole.pieces {
                let length = piece.info.data_offsets.1 - piece.info.data_offsets.0;
                Blocks::new(&mut self.files[piece.file], piece).read(0, length, &mut |_| ())?;
            }
        }
        Ok(())
    }

    /// Returns a hash of the bytes of a tensor.
    pub(crate) fn hash(&mut self, name: &str) -> Result<u128, CheckpointError> {
        let all = whole(self.shape(name));
        let mut hash = Xxh3::new();
        self.each_run(name, &all, &mut |_, _, bytes| hash.update(bytes))?;
        Ok(hash.digest128())
    }

    /// Returns the shape of a tensor.
    pub(crate) fn shape(&self, name: &str) -> &[usize] {
        self.wholes.get(name).map_or(&[], |whole| &whole.shape)
    }
}

/// Returns the common ranges of a part and a region, or `None` if they have no common elements.
fn overlap(part: &[Range<usize>], region: &[Range<usize>]) -> Option<Vec<Range<usize>>> {
    let axes = part.iter().zip(region);
    axes.map(|(part, region)| {
        let common = part.start.max(region.start)..part.end.min(region.end);
        (!common.is_empty()).then_some(common)
    })
    .collect()
}

/// Returns the region of a whole array.
pub(crate) fn whole(shape: &[usize]) -> Vec<Range<usize>> {
    shape.iter().map(|&length| 0..length).collect()
}

/// Copies the elements of a region of an array to memory of their size, in row-major order.
pub(crate) fn copy_region(
    elements: &[u8],
    shape: &[usize],
    region: &[Range<usize>],
    into: &mut [u8],
) {
    if into.is_empty() {
        return;
    }
    let unit = into.len() / region.iter().map(Range::len).product::<usize>();
    let copied = runs(&whole(shape), region, region, |from, to, length| {
        let (from, to, length) = (from * unit, to * unit, length * unit);
        into[to..to + length].copy_from_slice(&elements[from..from + length]);
        Ok::<_, Infallible>(())
    });
    let Ok(()) = copied;
}

/// Calls `each` for each row of the elements that a part and a region have in common, in the order of the part: with the
/// position of the row among the elements of the part, its position among the elements of the region, and its length. Rows
/// that follow each other in both are one call.
fn runs<E>(
    part: &[Range<usize>],
    region: &[Range<usize>],
    common: &[Range<usize>],
    mut each: impl FnMut(usize, usize, usize) -> Result<(), E>,
) -> Result<(), E> {
    let rank = common.len();
    // The last axes that both have whole belong to one run, and so does the axis before them.
    let mut first = rank;
    let mut length = 1;
    while first > 0 {
        first -= 1;
        length *= common[first].len();
        if common[first] != part[first] || common[first] != region[first] {
            break;
        }
    }
    let (of_part, of_region) = (strides(part), strides(region));
    let position = |index: &[usize], own: &[Range<usize>], strides: &[usize]| -> usize {
        let axes = index.iter().zip(own).zip(strides);
        axes.map(|((at, range), stride)| (at - range.start) * stride)
            .sum()
    };
    let mut index: Vec<usize> = common.iter().map(|range| range.start).collect();
    loop {
        let from = position(&index, part, &of_part);
        let to = position(&index, region, &of_region);
        each(from, to, length)?;
        // Advances to the next run, the last of the outer axes first.
        let mut axis = first;
        loop {
            if axis == 0 {
                return Ok(());
            }
            axis -= 1;
            index[axis] += 1;
            if index[axis] < common[axis].end {
                break;
            }
            index[axis] = common[axis].start;
        }
    }
}

/// Returns the distance between neighbours along each axis of a part in row-major order.
fn strides(part: &[Range<usize>]) -> Vec<usize> {
    let mut strides = vec![1; part.len()];
    for axis in (1..part.len()).rev() {
        strides[axis - 1] = strides[axis] * part[axis].len();
    }
    strides
}

/// The bytes of a part, of which one block is in memory.
struct Blocks<'f> {
    file: &'f mut StoredFile<'static>,
    piece: &'f Piece,
    /// The number of the block in memory.
    current: Option<usize>,
    bytes: Vec<u8>,
}

impl<'f> Blocks<'f> {
    fn new(file: &'f mut StoredFile<'static>, piece: &'f Piece) -> Self {
        Self {
            file,
            piece,
            current: None,
            bytes: Vec::new(),
        }
    }

    /// Calls `each` with the bytes from `start`, in order. Rows of ascending positions read each block once.
    fn read(
        &mut self,
        start: usize,
        length: usize,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<(), CheckpointError> {
        let (mut at, end) = (start, start + length);
        while at < end {
            let number = at / BLOCK;
            self.load(number)?;
            let begin = number * BLOCK;
            let stop = end.min(begin + self.bytes.len());
            each(&self.bytes[at - begin..stop - begin]);
            at = stop;
        }
        Ok(())
    }

    fn load(&mut self, number: usize) -> Result<(), CheckpointError> {
        if self.current == Some(number) {
            return Ok(());
        }
        self.current = None;
        let (start, end) = self.piece.info.data_offsets;
        let begin = start + number * BLOCK;
        self.bytes.resize(BLOCK.min(end - begin), 0);
        self.file.read_at(begin, &mut self.bytes)?;
        let expected = self
            .piece
            .blocks
            .as_ref()
            .and_then(|blocks| blocks.get(number));
        if let Some(expected) = expected {
            let found = block_checksum(&self.bytes);
            if found != *expected {
                let problem = format!(
                    "expected numbers with the checksum {expected} in block {number}, found {found}; the file was changed or damaged after it was saved"
                );
                let path = self.file.path().to_owned();
                return Err(damaged(path, &self.piece.name, &problem));
            }
        }
        self.current = Some(number);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(part: &[Range<usize>], region: &[Range<usize>]) -> Vec<(usize, usize, usize)> {
        let mut found = Vec::new();
        let Some(common) = overlap(part, region) else {
            return found;
        };
        let each = |from, to, length| {
            found.push((from, to, length));
            Ok::<(), ()>(())
        };
        runs(part, region, &common, each).unwrap();
        found
    }

    #[test]
    fn runs_are_as_long_as_possible() {
        assert_eq!(found(&[], &[]), [(0, 0, 1)]);
        assert_eq!(found(&[0..4, 0..6], &[0..4, 0..6]), [(0, 0, 24)]);
        assert_eq!(found(&[0..4, 0..6], &[2..8, 0..6]), [(12, 0, 12)]);
        assert_eq!(found(&[0..2, 3..6], &[0..4, 0..6]), [(0, 3, 3), (3, 9, 3)]);
        assert_eq!(
            found(&[2..4, 0..6], &[0..8, 4..8]),
            [(4, 8, 2), (10, 12, 2)]
        );
        assert_eq!(found(&[0..2, 0..6], &[2..4, 0..6]), []);
        let cubes = found(&[0..2, 0..2, 0..3], &[0..2, 1..2, 0..3]);
        assert_eq!(cubes, [(3, 0, 3), (9, 3, 3)]);
    }
}
