//! Reads the numbers of a stored tensor into the tensors of a model.
//!
//! Each number is written to its place as soon as it is read. So a tensor that is transposed, divided or converted
//! needs no copy in the layout of the file.

use std::io;
use std::ops::Range;
use std::path::Path;

use pytree_transform::{DType, Tensor, TensorError};
use safetensors::tensor::TensorInfo;

use crate::checkpoint::CheckpointError;
use crate::checkpoint::bytes::{Number, with_number};
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
        bytes: &mut Bytes<'_>,
    ) -> Result<Vec<Tensor>, CheckpointError> {
        with_number!(
            self.dtype,
            Element => self.read_as::<Element>(info, bytes),
            else self.read_as::<bool>(info, bytes)
        )
    }

    fn read_as<T: Number>(
        &self,
        info: &TensorInfo,
        bytes: &mut Bytes<'_>,
    ) -> Result<Vec<Tensor>, CheckpointError> {
        let unit = info.dtype.bitsize() / 8;
        if let [part] = &self.parts[..]
            && part.arrangement.is_same()
        {
            let mut elements = reserved(bytes.path(), part.shape.iter().product())?;
            bytes.read(unit, &mut |piece| {
                T::decode(info.dtype, piece, &mut elements);
            })?;
            return Ok(vec![Tensor::new(&part.shape, elements)]);
        }
        let mut scatter = Scatter::<T>::new(bytes.path(), &self.parts, &info.shape)?;
        let width = info.shape.last().copied().unwrap_or(1);
        if width > 0 {
            let mut rows = Vec::new();
            bytes.read(unit * width, &mut |piece| {
                rows.clear();
                T::decode(info.dtype, piece, &mut rows);
                for row in rows.chunks_exact(width) {
                    scatter.add(row);
                }
            })?;
        }
        Ok(self.tensors(scatter))
    }

    fn tensors<T: Number>(&self, scatter: Scatter<T>) -> Vec<Tensor> {
        let shapes = self.parts.iter().map(|part| &part.shape);
        let tensors = shapes.zip(scatter.targets);
        tensors
            .map(|(shape, target)| Tensor::new(shape, target.elements))
            .collect()
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
        if let [part] = &self.parts[..]
            && part.arrangement.is_same()
            && part.arrangement.file_shape() == part.shape
        {
            let loaded = places.leaves[part.leaf]
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
        with_number!(
            self.dtype,
            Element => Ok(Tensor::new(&shape, folder.region::<Element>(name, index)?)),
            else Ok(Tensor::new(&shape, folder.region::<bool>(name, index)?))
        )
    }

    /// Reads the tensors from a folder to the host.
    pub(super) fn read_wholes(
        &self,
        folder: &mut StoredFolder,
        name: &str,
    ) -> Result<Vec<Tensor>, CheckpointError> {
        with_number!(
            self.dtype,
            Element => self.wholes_as::<Element>(folder, name),
            else self.wholes_as::<bool>(folder, name)
        )
    }

    fn wholes_as<T: Number>(
        &self,
        folder: &mut StoredFolder,
        name: &str,
    ) -> Result<Vec<Tensor>, CheckpointError> {
        let shape = folder.shape(name).to_vec();
        let all: Vec<Range<usize>> = shape.iter().map(|&length| 0..length).collect();
        let elements = folder.region::<T>(name, &all)?;
        if let [part] = &self.parts[..]
            && part.arrangement.is_same()
        {
            return Ok(vec![Tensor::new(&part.shape, elements)]);
        }
        let mut scatter = Scatter::<T>::new(folder.path(), &self.parts, &shape)?;
        let width = shape.last().copied().unwrap_or(1);
        for row in elements.chunks_exact(width.max(1)) {
            scatter.add(row);
        }
        Ok(self.tensors(scatter))
    }
}

/// Returns an empty list with room for the elements of a tensor, or the error that there is no memory for them.
pub(super) fn reserved<T>(path: &Path, elements: usize) -> Result<Vec<T>, CheckpointError> {
    let mut list = Vec::new();
    match list.try_reserve_exact(elements) {
        Ok(()) => Ok(list),
        Err(_) => Err(io_error(path, io::ErrorKind::OutOfMemory.into())),
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
struct Scatter<T> {
    targets: Vec<Target<T>>,
    /// The axis of the file that is divided.
    axis: usize,
    /// The shape in the file without the last axis.
    outer: Vec<usize>,
    /// The position of the next row.
    index: Vec<usize>,
}

/// The elements of a part.
struct Target<T> {
    elements: Vec<T>,
    /// The range of the part along the axis that is divided.
    begin: usize,
    end: usize,
    first: isize,
    strides: Vec<isize>,
}

impl<T: Number> Scatter<T> {
    fn new(path: &Path, parts: &[Part], shape: &[usize]) -> Result<Self, CheckpointError> {
        let axis = parts.first().map_or(0, |part| part.arrangement.outputs());
        let mut begin = 0;
        let mut targets = Vec::with_capacity(parts.len());
        for part in parts {
            let end = begin + part.length(axis);
            let (first, strides) = part.arrangement.strides();
            let count = part.shape.iter().product();
            let mut elements = reserved(path, count)?;
            elements.resize(count, T::EMPTY);
            targets.push(Target {
                elements,
                begin,
                end,
                first,
                strides,
            });
            begin = end;
        }
        let outer = shape[..shape.len().saturating_sub(1)].to_vec();
        Ok(Self {
            targets,
            axis,
            index: vec![0; outer.len()],
            outer,
        })
    }

    /// Writes the next row, which is along the last axis of the file.
    fn add(&mut self, row: &[T]) {
        let last = self.outer.len();
        for target in &mut self.targets {
            let mut at = target.first;
            let mut is_inside = true;
            for (axis, &index) in self.index.iter().enumerate() {
                let mut index = index;
                if axis == self.axis {
                    is_inside = (target.begin..target.end).contains(&index);
                    index = index.wrapping_sub(target.begin);
                }
                at += index.cast_signed().wrapping_mul(target.strides[axis]);
            }
            let row = match (self.axis == last, is_inside) {
                (true, _) => &row[target.begin..target.end],
                (false, true) => row,
                (false, false) => continue,
            };
            for &element in row {
                target.elements[at.cast_unsigned()] = element;
                at += target.strides[last];
            }
        }
        // Advances the position, the last of its axes first.
        for (index, &length) in self.index.iter_mut().zip(&self.outer).rev() {
            *index += 1;
            if *index < length {
                return;
            }
            *index = 0;
        }
    }
}
