//! A checkpoint that is read: a single file, or a folder with several files and an index.

use std::collections::BTreeMap;
use std::path::Path;

use pytree_transform::{Tensor, TensorError};
use safetensors::tensor::TensorInfo;

use self::sealed::Given;
use crate::checkpoint::CheckpointError;
use crate::checkpoint::bytes::dtype_of;
use crate::checkpoint::file::StoredFile;
use crate::checkpoint::matching::Plan;
use crate::checkpoint::metadata::Metadata;
use crate::checkpoint::names::Arrangement;
use crate::checkpoint::reading::{Part, Reading};
use crate::checkpoint::sharded::{Index, StoredFolder, index_path};

/// A checkpoint whose headers were read.
#[derive(Debug)]
pub(super) enum Source<'b> {
    File(StoredFile<'b>),
    Folder(StoredFolder),
}

/// The leaves of a template, which decide where the loaded tensors are. Without them, the tensors are on the host.
#[derive(Clone, Copy)]
pub(super) struct Places<'t> {
    pub(super) names: &'t [String],
    pub(super) leaves: Option<&'t [Tensor]>,
}

/// Where a checkpoint is: the path of a file or a folder, or its [`Bytes`].
pub trait Location: sealed::Location {}

impl<P: AsRef<Path>> Location for P {}

/// A checkpoint in memory, such as one that a page has received, with the content of a file. Every function that reads a checkpoint at
/// a path accepts it in place of the path.
///
/// # Examples
/// ```
/// use pytree_io::checkpoint::{self, Bytes};
/// use pytree_nn::{Linear, Rngs};
/// let model = Linear::new(2, 3, &mut Rngs::new(0));
/// let bytes = checkpoint::to_bytes(&model)?;
/// let template = Linear::new(2, 3, &mut Rngs::new(1));
/// assert_eq!(checkpoint::load(Bytes(&bytes), &template)?, model);
/// assert_eq!(checkpoint::inspect(Bytes(&bytes))?[1].shape, [2, 3]);
/// # Ok::<(), checkpoint::CheckpointError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes<'b>(pub &'b [u8]);

impl Location for Bytes<'_> {}

mod sealed {
    use std::path::Path;

    /// Where a checkpoint is.
    #[derive(Debug)]
    pub enum Given<'p> {
        Path(&'p Path),
        Bytes(&'p [u8]),
    }

    pub trait Location {
        fn place(&self) -> Given<'_>;
    }

    impl<P: AsRef<Path>> Location for P {
        fn place(&self) -> Given<'_> {
            Given::Path(self.as_ref())
        }
    }

    impl Location for super::Bytes<'_> {
        fn place(&self) -> Given<'_> {
            Given::Bytes(self.0)
        }
    }
}

impl<'b> Source<'b> {
    /// Opens a checkpoint: a folder or its index, or else a file.
    pub(super) fn open(location: &'b impl Location) -> Result<Self, CheckpointError> {
        match location.place() {
            Given::Bytes(bytes) => StoredFile::of_bytes(bytes).map(Self::File),
            Given::Path(path) => match index_path(path) {
                Some(index) => StoredFolder::open(&index).map(Self::Folder),
                None => StoredFile::open(path).map(Self::File),
            },
        }
    }

    /// Returns the path of the file or of the index.
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::File(file) => file.path(),
            Self::Folder(folder) => folder.path(),
        }
    }

    /// Returns the metadata of the file or of the index, after a check of the version.
    pub(super) fn metadata(&self) -> Result<Metadata, CheckpointError> {
        match self {
            Self::File(file) => file.metadata(),
            Self::Folder(folder) => Ok(folder.metadata().clone()),
        }
    }

    /// Returns the dtype and the shape of each tensor by its name.
    pub(super) fn tensors(&self) -> BTreeMap<String, TensorInfo> {
        match self {
            Self::File(file) => file.tensors(),
            Self::Folder(folder) => folder.tensors(),
        }
    }

    /// Returns a hash of the bytes of a tensor.
    pub(super) fn hash(&mut self, name: &str) -> Result<u128, CheckpointError> {
        match self {
            Self::File(file) => file.hash(name),
            Self::Folder(folder) => folder.hash(name),
        }
    }

    /// Reads all numbers, and compares the checksums.
    pub(super) fn check_all(&mut self, metadata: &Metadata) -> Result<(), CheckpointError> {
        match self {
            Self::File(file) => file.read_all(metadata, &mut |_, _, _| Ok(())),
            Self::Folder(folder) => folder.check_all(),
        }
    }

    /// Reads the tensors that `is_read` accepts and whose dtypes this library has, to the host.
    pub(super) fn read_wholes(
        &mut self,
        metadata: &Metadata,
        is_read: &dyn Fn(&str) -> bool,
        each: &mut dyn FnMut(&str, Tensor),
    ) -> Result<(), CheckpointError> {
        let whole = |info: &TensorInfo| {
            let parts = vec![Part {
                leaf: 0,
                shape: info.shape.clone(),
                arrangement: Arrangement::same(&info.shape),
            }];
            dtype_of(info.dtype).map(|dtype| Reading { dtype, parts })
        };
        match self {
            Self::File(file) => file.read_all(metadata, &mut |name, info, bytes| {
                if let Some(reading) = whole(info).filter(|_| is_read(name)) {
                    let read = reading.read(info, bytes)?;
                    read.into_iter().for_each(|tensor| each(name, tensor));
                }
                Ok(())
            }),
            Self::Folder(folder) => {
                for (name, info) in folder.tensors() {
                    if let Some(reading) = whole(&info).filter(|_| is_read(&name)) {
                        let read = reading.read_wholes(folder, &name)?;
                        read.into_iter().for_each(|tensor| each(&name, tensor));
                    }
                }
                Ok(())
            }
        }
    }

    /// Reads the tensors of a plan, one by one. Calls `each` with the position of the leaf in the model and its tensor, which is
    /// where the template has it.
    pub(super) fn read(
        &mut self,
        metadata: &Metadata,
        mut plan: Plan,
        places: Places<'_>,
        each: &mut dyn FnMut(usize, Tensor),
    ) -> Result<(), CheckpointError> {
        match self {
            Self::File(file) => file.read_all(metadata, &mut |name, info, bytes| {
                for reading in plan.remove(name).unwrap_or_default() {
                    let tensors = reading.read(info, bytes)?;
                    for (part, tensor) in reading.parts.iter().zip(tensors) {
                        each(part.leaf, places.put(part.leaf, &tensor)?);
                    }
                }
                Ok(())
            }),
            Self::Folder(folder) => {
                for (name, readings) in plan {
                    for reading in readings {
                        reading.read_parts(folder, &name, places, each)?;
                    }
                }
                Ok(())
            }
        }
    }
}

impl Places<'_> {
    /// Puts a tensor of the host where the template has the leaf.
    pub(super) fn put(self, leaf: usize, tensor: &Tensor) -> Result<Tensor, CheckpointError> {
        let Some(leaves) = self.leaves else {
            return Ok(tensor.clone());
        };
        let put = tensor.try_put_like(&leaves[leaf]);
        put.map_err(|source| self.failed(leaf, source))
    }

    pub(super) fn failed(self, leaf: usize, source: TensorError) -> CheckpointError {
        CheckpointError::Place {
            name: self.names[leaf].clone(),
            source: Box::new(source),
        }
    }
}

/// Reads the metadata of a checkpoint, and nothing else.
pub(super) fn metadata_of(location: &impl Location) -> Result<Metadata, CheckpointError> {
    match location.place() {
        Given::Bytes(bytes) => StoredFile::of_bytes(bytes)?.metadata(),
        Given::Path(path) => match index_path(path) {
            Some(index) => Ok(Index::read(&index)?.metadata),
            None => StoredFile::open(path)?.metadata(),
        },
    }
}
