//! A checkpoint that is read: a single file, or a folder with several files and an index.

use std::collections::BTreeMap;
use std::path::Path;

use pytree_core::Leaf;
use safetensors::tensor::TensorInfo;

use crate::format::file::StoredFile;
use crate::format::metadata::Metadata;
use crate::loading::location::Location;
use crate::loading::location::sealed::Given;
use crate::loading::reading::{From, Plan, Sums, Targets};
use crate::report::error::CheckpointError;
use crate::shards::index::{Index, index_path};
use crate::shards::opening::StoredFolder;

/// A checkpoint whose headers were read.
#[derive(Debug)]
pub(crate) enum OpenCheckpoint<'b> {
    File(StoredFile<'b>),
    Folder(StoredFolder),
}

impl<'b> OpenCheckpoint<'b> {
    /// Opens a checkpoint: a folder or its index, or else a file.
    pub(crate) fn open(location: &'b impl Location) -> Result<Self, CheckpointError> {
        match location.place() {
            Given::Bytes(bytes) => StoredFile::of_bytes(bytes).map(Self::File),
            Given::Path(path) => match index_path(path) {
                Some(index) => StoredFolder::open(&index).map(Self::Folder),
                None => StoredFile::open(path).map(Self::File),
            },
        }
    }

    /// Returns the path of the file or of the index.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::File(file) => file.path(),
            Self::Folder(folder) => folder.path(),
        }
    }

    /// Returns the metadata of the file or of the index, after a check of the version.
    pub(crate) fn metadata(&self) -> Result<Metadata, CheckpointError> {
        match self {
            Self::File(file) => file.metadata(),
            Self::Folder(folder) => Ok(folder.metadata().clone()),
        }
    }

    /// Returns the dtype and the shape of each tensor by its name.
    pub(crate) fn tensors(&self) -> BTreeMap<String, TensorInfo> {
        match self {
            Self::File(file) => file.tensors(),
            Self::Folder(folder) => folder.tensors(),
        }
    }

    /// Returns a hash of the bytes of a tensor.
    pub(crate) fn hash(&mut self, name: &str) -> Result<u128, CheckpointError> {
        match self {
            Self::File(file) => file.hash(name),
            Self::Folder(folder) => folder.hash(name),
        }
    }

    /// Reads all numbers, and compares the checksums.
    pub(crate) fn check_all(&mut self, metadata: &Metadata) -> Result<(), CheckpointError> {
        match self {
            Self::File(file) => file.read_all(metadata, &mut |_, _, _| Ok(())),
            Self::Folder(folder) => folder.check_all(),
        }
    }

    /// Reads the tensors of a plan, one by one. Calls `each` with the position of a leaf in the model and the new leaf.
    pub(crate) fn read(
        &mut self,
        metadata: &Metadata,
        mut plan: Plan,
        targets: Targets<'_>,
        each: &mut dyn FnMut(usize, Box<dyn Leaf>),
    ) -> Result<(), CheckpointError> {
        let mut sums = Sums::of(&plan);
        match self {
            Self::File(file) => file.read_all(metadata, &mut |name, info, bytes| {
                let mut from = From::File { info, bytes };
                for reading in plan.remove(name).unwrap_or_default() {
                    reading.read(&mut from, targets, &mut sums, each)?;
                }
                Ok(())
            }),
            Self::Folder(folder) => {
                for (name, readings) in plan {
                    let mut from = From::Folder {
                        folder: &mut *folder,
                        name: &name,
                    };
                    for reading in readings {
                        reading.read(&mut from, targets, &mut sums, each)?;
                    }
                }
                Ok(())
            }
        }
    }
}

/// Reads the metadata of a checkpoint, and nothing else.
pub(crate) fn metadata_of(location: &impl Location) -> Result<Metadata, CheckpointError> {
    match location.place() {
        Given::Bytes(bytes) => StoredFile::of_bytes(bytes)?.metadata(),
        Given::Path(path) => match index_path(path) {
            Some(index) => Ok(Index::read(&index)?.metadata),
            None => StoredFile::open(path)?.metadata(),
        },
    }
}
