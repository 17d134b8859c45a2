//! Reads the numbers of a stored tensor into the tensors of a model.
//!
//! Each number is written to its place as soon as it is read. So a tensor that is transposed, divided or converted
//! needs no copy in the layout of the file.

use std::io;
use std::ops::Range;
use std::path::Path;

use pytree_transform::extend::TensorBuffer;
use pytree_transform::{AbstractArray, DType, Tensor, TensorError};
use safetensors::tensor::TensorInfo;

use crate::checkpoint::CheckpointError;
use crate::checkpoint::bytes::{decode, stored_dtype};
use crate::checkpoint::file::{Bytes, io_error};
use crate::checkpoint::names::Arrangement;
use crate::checkpoint::sharded::StoredFolder;
use crate::checkpoint::source::Places;

/// A tensor of the model that is the whole of a stored tensor or one of its parts.
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// The position of the leaf in the model.
    pub(super) leaf: usize,
    pub(super) shape: Vec<usize>,
    pub(super) arrangement: Arrangement,
}

impl Part {
    /// Returns the length of the part along the axis that is divided.
    fn length(&self, axis: usize) -> usize {
        self.arrangement
            .file_shape()
            .get(axis)
            .copied()
            .unwrap_or(1)
    }
}

/// The tensors of the model that are read from one stored tensor.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    /// The dtype of the tensors of the model.
    pub(super) dtype: DType,
    /// The parts, in their order in the file. They divide the axis of the outputs, and together have the stored shape.
    pub(super) parts: Vec<Part>,
}

impl Reading {
    /// Reads the tensors in the order of `parts`.
    pub(super) fn read(
        &self,
        info: &TensorInfo,
        bytes: &mut Bytes<'_, '_>,
    ) -> Result<Vec<Tensor>, CheckpointError> {
        let (dtype, unit) = (self.dtype, info.dtype.bitsize() / 8);
        if let [part] = &self.parts[..]
            && part.arrangement.is_same()
        {
            let mut buffer = self.buffer(bytes.path(), &part.shape)?;
            let mut rest = buffer.bytes_mut();
            if cfg!(target_endian = "little") && stored_dtype(dtype) == Some(info.dtype) {
                bytes.read_into(rest)?;
                return Ok(vec![buffer.into_tensor()]);
            }
            bytes.read(unit, &mut |piece| {
                let length = piece.len() / unit * dtype.bytes();
                let (into, behind) = std::mem::take(&mut rest).split_at_mut(length);
                decode(info.dtype, piece, dtype, into);
                rest = behind;
            })?;
            return Ok(vec![buffer.into_tensor()]);
        }
        let mut scatter = self.scatter(bytes.path(), &info.shape)?;
        let width = info.shape.last().copied().unwrap_or(1);
        if width > 0 {
            let mut rows = Vec::new();
            bytes.read(unit * width, &mut |piece| {
                rows.resize(piece.len() / unit * dtype.bytes(), 0);
                decode(info.dtype, piece, dtype, &mut rows);
                scatter.add(&rows, width);
            })?;
        }
        Ok(scatter.into_tensors())
    }

    /// Returns memory for a tensor of the model.
    fn buffer(&self, path: &Path, shape: &[usize]) -> Result<TensorBuffer, CheckpointError> {
        let buffer = TensorBuffer::new(&AbstractArray::new(self.dtype, shape));
        buffer.map_err(|_| io_error(path, io::ErrorKind::OutOfMemory.into()))
    }

    /// Reads the tensors from a folder to where the template has them. A tensor that is ordered as in the folder is read part
    /// by part. A tensor with another layout is first read as a whole.
    pub(super) fn read_parts(
        &self,
        folder: &mut StoredFolder,
        name: &str,
        places: Places<'_>,
        each: &mut dyn FnMut(usize, Tensor),
    ) -> Result<(), CheckpointError> {
        if let Some(leaves) = places.leaves
            && let [part] = &self.parts[..]
            && part.arrangement.is_same()
            && part.arrangement.file_shape() == part.shape
        {
            let loaded = leaves[part.leaf]
                .try_refilled(|index| self.region(folder, name, index).map_err(Failed::Reading));
            let loaded = loaded.map_err(|failed| match failed {
                Failed::Reading(error) => error,
                Failed::Placing(source) => places.failed(part.leaf, source),
            })?;
            each(part.leaf, loaded);
            return Ok(());
        }
        for (part, tensor) in self.parts.iter().zip(self.read_wholes(folder, name)?) {
            each(part.leaf, places.put(part.leaf, &tensor)?);
        }
        Ok(())
    }

    /// Reads a region of a tensor from a folder.
    fn region(
        &self,
        folder: &mut StoredFolder,
        name: &str,
        index: &[Range<usize>],
    ) -> Result<Tensor, CheckpointError> {
        let shape: Vec<usize> = index.iter().map(ExactSizeIterator::len).collect();
        let mut buffer = self.buffer(folder.path(), &shape)?;
        folder.region(name, index, self.dtype, buffer.bytes_mut())?;
        Ok(buffer.into_tensor())
    }

    /// Reads the tensors from a folder to the host.
    pub(super) fn read_wholes(
        &self,
        folder: &mut StoredFolder,
        name: &str,
    ) -> Result<Vec<Tensor>, CheckpointError> {
        let shape = folder.shape(name).to_vec();
        let all: Vec<Range<usize>> = shape.iter().map(|&length| 0..length).collect();
        let is_same = |part: &&Part| self.parts.len() == 1 && part.arrangement.is_same();
        let same = self.parts.first().filter(is_same);
        let mut whole = self.buffer(folder.path(), same.map_or(&shape, |part| &part.shape))?;
        folder.region(name, &all, self.dtype, whole.bytes_mut())?;
        if same.is_some() {
            return Ok(vec![whole.into_tensor()]);
        }
        let mut scatter = self.scatter(folder.path(), &shape)?;
        scatter.add(whole.bytes_mut(), shape.last().copied().unwrap_or(1).max(1));
        Ok(scatter.into_tensors())
    }
}

/// The error of a tensor that is read part by part.
enum Failed {
    Reading(CheckpointError),
    Placing(TensorError),
}

impl From<TensorError> for Failed {
    fn from(error: TensorError) -> Self {
        Self::Placing(error)
    }
}

/// Writes the rows of a stored tensor to their places in the parts.
struct Scatter {
    targets: Vec<Target>,
    /// The number of bytes of an element.
    unit: usize,
    /// The axis of the file that is divided.
    axis: usize,
    /// The shape in the file without the last axis.
    outer: Vec<usize>,
    /// The position of the next row.
    index: Vec<usize>,
}

/// The elements of a part.
struct Target {
    elements: TensorBuffer,
    /// The range of the part along the axis that is divided.
    begin: usize,
    end: usize,
    first: isize,
    strides: Vec<isize>,
}

impl Reading {
    fn scatter(&self, path: &Path, shape: &[usize]) -> Result<Scatter, CheckpointError> {
        let axis = self
            .parts
            .first()
            .map_or(0, |part| part.arrangement.outputs());
        let mut begin = 0;
        let mut targets = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            let end = begin + part.length(axis);
            let (first, strides) = part.arrangement.strides();
            targets.push(Target {
                elements: self.buffer(path, &part.shape)?,
                begin,
                end,
                first,
                strides,
            });
            begin = end;
        }
        let outer = shape[..shape.len().saturating_sub(1)].to_vec();
        Ok(Scatter {
            targets,
            unit: self.dtype.bytes(),
            axis,
            index: vec![0; outer.len()],
            outer,
        })
    }
}

/// A transposed block of rows fills whole cache lines of this many bytes.
const CACHE_LINE: usize = 64;

impl Scatter {
    /// Writes the next rows, which are along the last axis of the file.
    fn add(&mut self, mut rows: &[u8], width: usize) {
        let bytes = width * self.unit;
        while rows.len() >= bytes {
            let (block, rest) = rows.split_at(self.block(rows.len() / bytes) * bytes);
            self.add_block(block, block.len() / bytes);
            rows = rest;
        }
    }

    /// Returns how many of the next rows are written as one block. Rows for several parts are written one by one. Rows for one part
    /// form a block while only the last index changes.
    fn block(&self, rows: usize) -> usize {
        match (&self.targets[..], self.outer.last(), self.index.last()) {
            ([_], Some(length), Some(index)) => {
                rows.min(length - index).min(CACHE_LINE / self.unit)
            }
            _ => 1,
        }
    }

    fn add_block(&mut self, rows: &[u8], count: usize) {
        let (last, unit) = (self.outer.len(), self.unit);
        for target in &mut self.targets {
            let mut at = target.first;
            let mut is_inside = true;
            for (axis, &index) in self.index.iter().enumerate() {
                let mut index = index;
                if axis == self.axis {
                    is_inside = count > 1 || (target.begin..target.end).contains(&index);
                    index = index.wrapping_sub(target.begin);
                }
                at += index.cast_signed().wrapping_mul(target.strides[axis]);
            }
            let rows = match (self.axis == last && count == 1, is_inside) {
                (true, _) => &rows[target.begin * unit..target.end * unit],
                (false, true) => rows,
                (false, false) => continue,
            };
            let elements = target.elements.bytes_mut();
            // One row is copied as many rows of one element.
            let (width, of_rows) = match count {
                1 => (1, target.strides[last]),
                _ => (rows.len() / unit / count, target.strides[last - 1]),
            };
            let strides = [of_rows, target.strides[last]];
            match unit {
                1 => copy::<1>(rows, width, elements, at, strides),
                2 => copy::<2>(rows, width, elements, at, strides),
                4 => copy::<4>(rows, width, elements, at, strides),
                _ => copy::<8>(rows, width, elements, at, strides),
            }
        }
        // Advances the position, the last of its axes first.
        let mut step = count;
        for (index, &length) in self.index.iter_mut().zip(&self.outer).rev() {
            *index += step;
            if *index < length {
                return;
            }
            (*index, step) = (0, 1);
        }
    }

    fn into_tensors(self) -> Vec<Tensor> {
        let targets = self.targets.into_iter();
        targets
            .map(|target| target.elements.into_tensor())
            .collect()
    }
}

/// Copies rows of `width` elements of `N` bytes to positions that begin at `at`, with strides between rows and between columns.
fn copy<const N: usize>(
    rows: &[u8],
    width: usize,
    elements: &mut [u8],
    mut at: isize,
    [of_rows, of_columns]: [isize; 2],
) {
    let (rows, elements) = (rows.as_chunks::<N>().0, elements.as_chunks_mut::<N>().0);
    for column in 0..width {
        let mut to = at;
        for &element in rows[column..].iter().step_by(width) {
            elements[to.cast_unsigned()] = element;
            to += of_rows;
        }
        at += of_columns;
    }
}
