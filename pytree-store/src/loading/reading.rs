//! Reads the elements of a stored tensor into new leaves.
//!
//! Each element is written to its place as soon as it is read. So a tensor that is transposed or converted needs no copy in the layout
//! of the file. Only a tensor that is divided among several leaves, or is one of the terms of a sum, is in memory twice.

use std::collections::BTreeMap;

use pytree_core::leaf::{ArrayLeaf, LeafError};
use pytree_core::{ElementType, Leaf};
use safetensors::tensor::TensorInfo;

use crate::elements::bytes::add;
use crate::elements::scatter::{Scatter, Target};
use crate::format::bytes::{decode, stored_dtype};
use crate::format::file::Bytes;
use crate::names::arrangement::Arrangement;
use crate::report::error::CheckpointError;
use crate::shards::opening::StoredFolder;
use crate::shards::region::{copy_region, whole};

/// What is read from each tensor of the file, by its name in the file.
pub(crate) type Plan = BTreeMap<String, Vec<Reading>>;

/// The leaves that are replaced by leaves with the elements of a checkpoint, with their names.
#[derive(Clone, Copy)]
pub(crate) struct Targets<'t> {
    pub(crate) names: &'t [String],
    pub(crate) leaves: &'t [&'t dyn ArrayLeaf],
}

/// A stored tensor.
pub(crate) enum From<'a, 'f, 'b> {
    File {
        info: &'a TensorInfo,
        bytes: &'a mut Bytes<'f, 'b>,
    },
    Folder {
        folder: &'a mut StoredFolder,
        name: &'a str,
    },
}

/// A tensor of the model that is the whole of a stored tensor or one of its parts.
#[derive(Clone, Debug)]
pub(crate) struct TargetLeaf {
    /// The position of the leaf in the model.
    pub(crate) leaf: usize,
    pub(crate) shape: Vec<usize>,
    pub(crate) arrangement: Arrangement,
}

impl TargetLeaf {
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
pub(crate) struct Reading {
    /// The dtype of the tensors of the model.
    pub(crate) dtype: ElementType,
    /// The parts, in their order in the file. They divide the axis of the outputs, and together have the stored shape.
    pub(crate) parts: Vec<TargetLeaf>,
}

impl Reading {
    /// Reads the leaves.
    pub(crate) fn read(
        &self,
        from: &mut From<'_, '_, '_>,
        targets: Targets<'_>,
        sums: &mut Sums,
        each: &mut dyn FnMut(usize, Box<dyn Leaf>),
    ) -> Result<(), CheckpointError> {
        if let [part] = &self.parts[..]
            && !sums.have(part.leaf)
        {
            let refilled = self.refilled(from, part, targets.leaves[part.leaf]);
            each(
                part.leaf,
                refilled.map_err(|error| targets.failed(part.leaf, error))?,
            );
            return Ok(());
        }
        let of_part =
            |part: &TargetLeaf| vec![0; part.shape.iter().product::<usize>() * self.dtype.bytes()];
        let mut elements: Vec<Vec<u8>> = self.parts.iter().map(of_part).collect();
        self.fill(
            from,
            elements.iter_mut().map(|part| &mut part[..]).collect(),
        )?;
        for (part, elements) in self.parts.iter().zip(elements) {
            let Some(elements) = sums.completed(part.leaf, elements, self.dtype) else {
                continue;
            };
            let refilled = targets.leaves[part.leaf].refilled(&mut |region, into| {
                copy_region(&elements, &part.shape, region, into);
                Ok(())
            });
            each(
                part.leaf,
                refilled.map_err(|error| targets.failed(part.leaf, error))?,
            );
        }
        Ok(())
    }

    /// Reads the only part. A part of a folder that has the order of the model is read region by region.
    fn refilled(
        &self,
        from: &mut From<'_, '_, '_>,
        part: &TargetLeaf,
        leaf: &dyn ArrayLeaf,
    ) -> Result<Box<dyn Leaf>, LeafError> {
        let mut kept: Option<Vec<u8>> = None;
        leaf.refilled(&mut |region, into| {
            let is_plain =
                part.arrangement.is_same() && part.arrangement.file_shape() == part.shape;
            if let (From::Folder { folder, name }, true) = (&mut *from, is_plain) {
                return Ok(folder.region(name, region, self.dtype, into)?);
            }
            if region == whole(&part.shape) {
                return Ok(self.fill(from, vec![into])?);
            }
            if kept.is_none() {
                let mut elements =
                    vec![0; part.shape.iter().product::<usize>() * self.dtype.bytes()];
                self.fill(from, vec![&mut elements])?;
                kept = Some(elements);
            }
            if let Some(elements) = &kept {
                copy_region(elements, &part.shape, region, into);
            }
            Ok(())
        })
    }

    /// Reads the whole tensor into the memory of the parts.
    fn fill(
        &self,
        from: &mut From<'_, '_, '_>,
        mut parts: Vec<&mut [u8]>,
    ) -> Result<(), CheckpointError> {
        let dtype = self.dtype;
        let is_same = matches!(&self.parts[..], [part] if part.arrangement.is_same());
        match from {
            From::File { info, bytes } if is_same => {
                let mut rest = std::mem::take(&mut parts[0]);
                if cfg!(target_endian = "little") && stored_dtype(dtype) == Some(info.dtype) {
                    return bytes.read_into(rest);
                }
                let unit = info.dtype.bitsize() / 8;
                bytes.read(unit, &mut |piece| {
                    let length = piece.len() / unit * dtype.bytes();
                    let (into, behind) = std::mem::take(&mut rest).split_at_mut(length);
                    decode(info.dtype, piece, dtype, into);
                    rest = behind;
                })
            }
            From::File { info, bytes } => {
                let (width, unit) = (row_length(&info.shape), info.dtype.bitsize() / 8);
                if width == 0 {
                    return Ok(());
                }
                let mut scatter = self.scatter(&info.shape, parts);
                let mut rows = Vec::new();
                bytes.read(unit * width, &mut |piece| {
                    rows.resize(piece.len() / unit * dtype.bytes(), 0);
                    decode(info.dtype, piece, dtype, &mut rows);
                    scatter.add(&rows, width);
                })
            }
            From::Folder { folder, name } => {
                let shape = folder.shape(name).to_vec();
                if is_same {
                    return folder.region(name, &whole(&shape), dtype, parts[0]);
                }
                let mut elements = vec![0; shape.iter().product::<usize>() * dtype.bytes()];
                folder.region(name, &whole(&shape), dtype, &mut elements)?;
                if !elements.is_empty() {
                    self.scatter(&shape, parts)
                        .add(&elements, row_length(&shape));
                }
                Ok(())
            }
        }
    }

    /// Scatters a tensor of the file, which has the given shape, to its parts.
    fn scatter<'e>(&self, shape: &[usize], parts: Vec<&'e mut [u8]>) -> Scatter<'e> {
        let first = self.parts.first();
        let axis = first.map_or(0, |part| part.arrangement.outputs());
        let mut begin = 0;
        let targets = self.parts.iter().zip(parts).map(|(part, elements)| {
            let end = begin + part.length(axis);
            Target {
                elements,
                range: std::mem::replace(&mut begin, end)..end,
                places: part.arrangement.strides(),
            }
        });
        Scatter::new(shape, self.dtype.bytes(), axis, targets.collect())
    }
}

/// Returns the length of the rows of an array, which are along the last axis.
fn row_length(shape: &[usize]) -> usize {
    shape.last().copied().unwrap_or(1)
}

impl Targets<'_> {
    fn failed(self, leaf: usize, error: LeafError) -> CheckpointError {
        match error.downcast::<CheckpointError>() {
            Ok(error) => *error,
            Err(source) => CheckpointError::Place {
                name: self.names[leaf].clone(),
                source,
            },
        }
    }
}

/// The leaves that are sums of several tensors of the file: the number of tensors that are not read yet, and the sum of the others.
pub(crate) struct Sums(BTreeMap<usize, (usize, Option<Vec<u8>>)>);

impl Sums {
    pub(crate) fn of(plan: &Plan) -> Self {
        let mut sums = BTreeMap::new();
        let parts = plan.values().flatten().flat_map(|reading| &reading.parts);
        for part in parts {
            sums.entry(part.leaf).or_insert((0, None)).0 += 1;
        }
        sums.retain(|_, (terms, _)| *terms > 1);
        Self(sums)
    }

    fn have(&self, leaf: usize) -> bool {
        self.0.contains_key(&leaf)
    }

    /// Adds the next term of a leaf. Returns the elements of the leaf if no term is left.
    fn completed(&mut self, leaf: usize, elements: Vec<u8>, dtype: ElementType) -> Option<Vec<u8>> {
        let Some((terms, sum)) = self.0.get_mut(&leaf) else {
            return Some(elements);
        };
        *terms -= 1;
        match sum {
            Some(sum) => add(sum, &elements, dtype),
            None => *sum = Some(elements),
        }
        (*terms == 0).then(|| sum.take())?
    }
}
