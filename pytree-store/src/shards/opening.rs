//! Opens the files of an index, and finds the parts of each tensor.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use safetensors::tensor::{Dtype, TensorInfo};
use serde_json::Value;

use crate::format::file::StoredFile;
use crate::format::metadata::Metadata;
use crate::report::error::CheckpointError;
use crate::shards::grid::defect;
use crate::shards::index::{Described, Index};
use crate::shards::part::{BLOCK, BLOCKS_KEY, PARTS_KEY, PartPlace, of_json, part_name};

/// A checkpoint of several files, whose headers were read and fit the index.
#[derive(Debug)]
pub(crate) struct StoredFolder {
    index: Index,
    pub(crate) files: Vec<StoredFile<'static>>,
    pub(crate) wholes: BTreeMap<String, Whole>,
}

/// A tensor that consists of parts, which are a grid.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<usize>,
    pub(crate) pieces: Vec<Piece>,
}

/// A part of a tensor in a file.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    /// The position of the file.
    pub(crate) file: usize,
    /// The name of the part in the file.
    pub(crate) name: String,
    pub(crate) info: TensorInfo,
    /// The range of each axis of the tensor.
    pub(crate) ranges: Vec<Range<usize>>,
    /// The checksums of the blocks. `None` if another program wrote the file.
    pub(crate) blocks: Option<Vec<String>>,
}

impl StoredFolder {
    /// Opens the files of the index at a path. If another save replaces the checkpoint meanwhile, opens the new one.
    pub(crate) fn open(index: &Path) -> Result<Self, CheckpointError> {
        let mut read = Index::read(index)?;
        loop {
            let files: BTreeSet<String> = read.weight_map.values().cloned().collect();
            let error = match Self::of(read) {
                Ok(folder) => return Ok(folder),
                Err(error) => error,
            };
            read = Index::read(index)?;
            if read.weight_map.values().cloned().collect::<BTreeSet<_>>() == files {
                return Err(error);
            }
        }
    }

    /// Opens the files of an index.
    pub(crate) fn of(index: Index) -> Result<Self, CheckpointError> {
        let mut files = Vec::new();
        let mut wholes = BTreeMap::new();
        let mut by_file: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (stored, file) in &index.weight_map {
            by_file.entry(file).or_default().push(stored);
        }
        let described = index.described()?;
        for (name, stored) in by_file {
            let path = index.directory().join(name);
            if !path.exists() {
                return Err(damaged(
                    path,
                    stored[0],
                    "the file with this tensor is missing",
                ));
            }
            let file = StoredFile::open(&path)?;
            if let Some(described) = &described {
                let Some(expected) = described.get(name) else {
                    return Err(damaged(path, stored[0], "the index does not list the file"));
                };
                compare(&file, expected)?;
            }
            for (tensor, piece) in pieces(&file, files.len(), &stored, described.is_some())? {
                add_piece(&mut wholes, &path, tensor, piece)?;
            }
            files.push(file);
        }
        let folder = Self {
            index,
            files,
            wholes,
        };
        folder.check_grids()?;
        Ok(folder)
    }

    /// Checks that the parts of each tensor neither overlap nor leave gaps.
    fn check_grids(&self) -> Result<(), CheckpointError> {
        for (name, whole) in &self.wholes {
            let parts: Vec<&[Range<usize>]> =
                whole.pieces.iter().map(|piece| &piece.ranges[..]).collect();
            let Some((at, problem)) = defect(&whole.shape, &parts) else {
                continue;
            };
            return Err(match at.and_then(|at| whole.pieces.get(at)) {
                Some(piece) => damaged(self.path_of(piece), &piece.name, &problem),
                None => damaged(self.index.path.clone(), name, &problem),
            });
        }
        Ok(())
    }

    pub(crate) fn path_of(&self, piece: &Piece) -> PathBuf {
        self.files[piece.file].path().to_owned()
    }

    pub(crate) fn path(&self) -> &Path {
        &self.index.path
    }

    pub(crate) fn into_index(self) -> Index {
        self.index
    }

    pub(crate) fn metadata(&self) -> &Metadata {
        &self.index.metadata
    }

    /// Returns the number of bytes of all tensors.
    pub(crate) fn bytes(&self) -> u64 {
        let pieces = self.wholes.values().flat_map(|whole| &whole.pieces);
        let bytes =
            pieces.map(|piece| (piece.info.data_offsets.1 - piece.info.data_offsets.0) as u64);
        bytes.sum()
    }

    /// Returns the dtype and the shape of each tensor by its name. The offsets have no meaning.
    pub(crate) fn tensors(&self) -> BTreeMap<String, TensorInfo> {
        let info = |(name, whole): (&String, &Whole)| {
            let info = TensorInfo {
                dtype: whole.dtype,
                shape: whole.shape.clone(),
                data_offsets: (0, 0),
            };
            (name.clone(), info)
        };
        self.wholes.iter().map(info).collect()
    }
}

/// Returns the error for a file that does not fit the index, or for a damaged part.
pub(crate) fn damaged(path: PathBuf, name: &str, problem: &str) -> CheckpointError {
    CheckpointError::Part {
        path,
        name: name.to_owned(),
        problem: problem.to_owned(),
    }
}

/// Compares a file with what the index knows of it.
fn compare(file: &StoredFile<'_>, expected: &Described) -> Result<(), CheckpointError> {
    let path = file.path().to_owned();
    if expected.length != file.len() {
        return Err(CheckpointError::Length {
            path,
            expected: usize::try_from(expected.length).unwrap_or(usize::MAX),
            found: usize::try_from(file.len()).unwrap_or(usize::MAX),
        });
    }
    if expected.header != file.header_checksum() {
        return Err(CheckpointError::Checksum {
            path,
            expected: expected.header.clone(),
            found: file.header_checksum().to_owned(),
        });
    }
    Ok(())
}

/// The name and the shape of a tensor, of which a file has a part.
type Tensor = (String, Vec<usize>);

/// Adds a part to its tensor.
fn add_piece(
    wholes: &mut BTreeMap<String, Whole>,
    path: &Path,
    (tensor, shape): Tensor,
    piece: Piece,
) -> Result<(), CheckpointError> {
    let dtype = piece.info.dtype;
    let whole = wholes.entry(tensor).or_insert_with(|| Whole {
        dtype,
        shape: shape.clone(),
        pieces: Vec::new(),
    });
    if whole.dtype != dtype || whole.shape != shape {
        let problem = format!(
            "the file has a part of a tensor {dtype:?} {shape:?}, but another part belongs to a tensor {:?} {:?}",
            whole.dtype, whole.shape
        );
        return Err(damaged(path.to_owned(), &piece.name, &problem));
    }
    whole.pieces.push(piece);
    Ok(())
}

/// Returns the parts that an index expects in a file, each with its tensor. `position` is the position of the file.
fn pieces(
    file: &StoredFile<'_>,
    position: usize,
    stored: &[&str],
    has_blocks: bool,
) -> Result<Vec<(Tensor, Piece)>, CheckpointError> {
    let refused = |name: &str, problem: &str| damaged(file.path().to_owned(), name, problem);
    let invalid = |key: &str| {
        let problem = format!("the metadata `{key}` of the file is invalid");
        refused(stored[0], &problem)
    };
    let mut tensors = file.tensors();
    let places = match file.entry(PARTS_KEY) {
        Some(text) => of_json(text).ok_or_else(|| invalid(PARTS_KEY))?,
        None => BTreeMap::new(),
    };
    let mut blocks = match file.entry(BLOCKS_KEY) {
        Some(text) if has_blocks => of_blocks(text).ok_or_else(|| invalid(BLOCKS_KEY))?,
        None if has_blocks => return Err(invalid(BLOCKS_KEY)),
        _ => BTreeMap::new(),
    };
    let mut pieces = Vec::with_capacity(stored.len());
    for &name in stored {
        let Some(info) = tensors.remove(name) else {
            let problem = "the index says that this file has it, but the file has not";
            return Err(refused(name, problem));
        };
        let blocks = blocks.remove(name);
        let count = (info.data_offsets.1 - info.data_offsets.0).div_ceil(BLOCK);
        if has_blocks && blocks.as_ref().is_none_or(|blocks| blocks.len() != count) {
            let problem = "the file has not as many checksums as it has blocks";
            return Err(refused(name, problem));
        }
        let (tensor, ranges) = if let Some(place) = places.get(name) {
            let ranges = placed(name, place, &info);
            let ranges = ranges.map_err(|problem| refused(name, &problem))?;
            ((place.tensor.clone(), place.shape.clone()), ranges)
        } else {
            let ranges = info.shape.iter().map(|&length| 0..length).collect();
            ((name.to_owned(), info.shape.clone()), ranges)
        };
        let name = name.to_owned();
        let piece = Piece {
            file: position,
            name,
            info,
            ranges,
            blocks,
        };
        pieces.push((tensor, piece));
    }
    Ok(pieces)
}

/// Returns the ranges of a part, or the problem of its place.
fn placed(name: &str, place: &PartPlace, info: &TensorInfo) -> Result<Vec<Range<usize>>, String> {
    let Some(ranges) = ranges_of(place, info) else {
        return Err(format!(
            "its shape {:?} at {:?} is not inside of its tensor {:?}",
            info.shape, place.begin, place.shape
        ));
    };
    if part_name(&place.tensor, &ranges, &place.shape) != name {
        return Err("its name is not that of its place".to_owned());
    }
    Ok(ranges)
}

/// Returns the ranges of a part, or `None` if the part is not inside of its tensor.
fn ranges_of(place: &PartPlace, info: &TensorInfo) -> Option<Vec<Range<usize>>> {
    let rank = info.shape.len();
    if place.shape.len() != rank || place.begin.len() != rank {
        return None;
    }
    // The tensor must have a number of elements.
    place
        .shape
        .iter()
        .try_fold(1_usize, |count, &length| count.checked_mul(length))?;
    let axes = place.begin.iter().zip(&info.shape).zip(&place.shape);
    let range = |((&begin, &length), &whole): ((&usize, &usize), &usize)| {
        let end = begin.checked_add(length)?;
        (end <= whole).then_some(begin..end)
    };
    axes.map(range).collect()
}

/// Reads the checksums of blocks by the names of tensors. Returns `None` if the text has another form.
fn of_blocks(text: &str) -> Option<BTreeMap<String, Vec<String>>> {
    let Value::Object(tensors) = serde_json::from_str(text).ok()? else {
        return None;
    };
    let blocks = |(name, value): (String, Value)| {
        let own = value.as_str()?.split_whitespace().map(str::to_owned);
        Some((name, own.collect()))
    };
    tensors.into_iter().map(blocks).collect()
}
