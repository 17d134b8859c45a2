//! Saves a checkpoint by shards: which process writes which parts, and when the index is written.

use std::collections::BTreeSet;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::Path;

use pytree_core::boundary::try_flatten_with_references;
use pytree_core::{PytreeOf, TreeDef};
use pytree_transform::device::Sharding;
use pytree_transform::{Tensor, TensorError};

use super::index::{FAMILY, Index, file_name, remove_unused};
use super::opening::StoredFolder;
use super::part::{PartPlace, is_whole, part_name};
use super::writers::Writers;
use super::writing::{OwnPart, write_file};
use crate::checkpoint::bytes::savable;
use crate::checkpoint::leaves::{names, places};
use crate::checkpoint::metadata::Metadata;
use crate::checkpoint::save::{checked_metadata, described};
use crate::checkpoint::{CheckpointError, SaveOptions};
use crate::files::{Locked, Unfinished};

/// Writes all leaves of a pytree to a folder, without gathering tensors that are divided among the devices of a mesh.
///
/// Each part of a tensor is written once, from a device that holds it, and one part at a time is in the memory of the
/// host. The folder has safetensors files and an index, `model.safetensors.index.json`.
/// [`load`](crate::checkpoint::load()) and the other functions that read checkpoints accept the path of the folder. The mesh
/// that loads may have other axes than the mesh that saved.
///
/// If the tensors are on a mesh of several processes, each process calls this function with the same path and its own value,
/// and writes the parts that its devices hold to a file of its own. If several devices hold a part, the process of the
/// first of them writes it. The process of rank 0 also writes the tensors that are not on the mesh, and the index. The
/// function returns when the whole checkpoint is complete. The folder must be on a file system that all processes share.
///
/// The save is atomic. The index is written last and replaces the earlier index, so at any time the folder has the earlier or
/// the new checkpoint. The save then removes the files that no index needs. Files of other programs remain.
///
/// # Examples
/// ```
/// use pytree_io::checkpoint;
/// use pytree_nn::{Linear, Rngs};
/// let model = Linear::new(2, 3, &mut Rngs::new(0));
/// let folder = std::env::temp_dir().join("pytree-save-sharded-example");
/// checkpoint::save_sharded(&folder, &model)?;
/// let template = Linear::new(2, 3, &mut Rngs::new(1));
/// assert_eq!(checkpoint::load(&folder, &template)?, model);
/// # std::fs::remove_dir_all(folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns the errors of [`save`](crate::checkpoint::save()), and [`CheckpointError::Process`] if another process could not write
/// its part. After an error in one process, no process returns `Ok`, and the earlier checkpoint of the folder is unchanged.
pub fn save_sharded<T: PytreeOf<Tensor>>(
    path: impl AsRef<Path>,
    state: &T,
) -> Result<(), CheckpointError> {
    save_sharded_with(path, state, &SaveOptions::new())
}

/// Writes all leaves of a pytree to a folder like [`save_sharded`], with the names and the metadata of `options`.
///
/// # Errors
/// Returns the errors of [`save_sharded`]. Returns [`CheckpointError::MetadataKey`] if a key of the metadata begins with
/// `pytree.`, and [`CheckpointError::Layout`] if a leaf has another layout under the names of `options`.
pub fn save_sharded_with<T: PytreeOf<Tensor>>(
    path: impl AsRef<Path>,
    state: &T,
    options: &SaveOptions,
) -> Result<(), CheckpointError> {
    let save = ShardedSave {
        path: path.as_ref(),
        options,
        progress: None,
    };
    write(state, &save).map(drop)
}

/// A save by shards.
pub(in crate::checkpoint) struct ShardedSave<'s> {
    pub(in crate::checkpoint) path: &'s Path,
    pub(in crate::checkpoint) options: &'s SaveOptions,
    /// The step and the metric of a checkpoint in a folder of checkpoints.
    pub(in crate::checkpoint) progress: Option<(usize, Option<f64>)>,
}

/// Whether a process is the first of those that have written a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::checkpoint) enum Role {
    /// The process has written the index.
    First,
    /// The process has written its own file only.
    Other,
}

/// Writes the file of this process, waits for the other processes, and writes the index in the process of rank 0.
pub(in crate::checkpoint) fn write<T: PytreeOf<Tensor>>(
    state: &T,
    save: &ShardedSave<'_>,
) -> Result<Role, CheckpointError> {
    // This reads all references at one instant, even if other threads write them.
    let (leaves, treedef, _) = try_flatten_with_references::<Tensor, T>(state)?;
    let writers = Writers::of(&leaves);
    let failed = |source: TensorError| CheckpointError::Value {
        name: "the state of this process together with the others".to_owned(),
        source: Box::new(source),
    };
    let number = writers.of_first(new_number()).map_err(failed)?;
    // An error is returned only after the exchange, because the other processes wait for this process.
    let own = write_own(&leaves, &treedef, save, &writers, number);
    let refused = writers.first_failed(own.is_ok()).map_err(failed)?;
    let (metadata, lock) = own?;
    if let Some(rank) = refused {
        return Err(save.other_process(rank));
    }
    let role = if writers.rank() == 0 {
        Role::First
    } else {
        Role::Other
    };
    let published = match role {
        Role::First => publish(save, writers.count(), number, metadata),
        Role::Other => Ok(()),
    };
    let refused = writers.first_failed(published.is_ok()).map_err(failed)?;
    drop(lock);
    published?;
    match refused {
        Some(rank) => Err(save.other_process(rank)),
        None => Ok(role),
    }
}

/// Returns a number that no other save to the same folder has.
fn new_number() -> i64 {
    // The keys of a `RandomState` are random numbers from the operating system.
    let random = RandomState::new().hash_one(0);
    random.cast_signed()
}

impl ShardedSave<'_> {
    fn other_process(&self, rank: usize) -> CheckpointError {
        CheckpointError::Process {
            path: self.path.to_owned(),
            rank,
        }
    }
}

/// Writes the parts that this process holds. Returns the metadata of the index, and the lock on the file.
fn write_own(
    leaves: &[Tensor],
    treedef: &TreeDef,
    save: &ShardedSave<'_>,
    writers: &Writers,
    number: i64,
) -> Result<(Metadata, Locked), CheckpointError> {
    let options = save.options;
    checked_metadata(options)?;
    create(save.path)?;
    if writers.rank() == 0 {
        // What killed saves have left. The other processes have locked their files.
        remove_unused(save.path);
    }
    let own_names = names(treedef);
    let shapes = leaves.iter().map(Tensor::shape);
    let places = places(treedef, shapes, options.names.as_ref());
    let mut parts = Vec::new();
    let mut seen = BTreeSet::new();
    for ((leaf, name), place) in leaves.iter().zip(&own_names).zip(&places) {
        let is_same = place.part == (0, 1)
            && place.added.is_empty()
            && place.arrangement.is_same()
            && place.arrangement.file_shape() == leaf.shape();
        if !is_same {
            return Err(CheckpointError::Layout { name: name.clone() });
        }
        if !seen.insert(&place.file) {
            let name = place.file.clone();
            return Err(CheckpointError::SameName { name });
        }
        parts.extend(own_parts(leaf, name, &place.file, writers.rank())?);
    }
    let mut metadata = match options.names {
        None => described(treedef),
        Some(_) => Metadata::new(String::new(), String::new()),
    };
    metadata.extend(&options.metadata);
    if let Some((step, metric)) = save.progress {
        metadata.set_progress(step, metric);
    }
    let target = file_name(number, writers.rank(), writers.count());
    let target = save.path.join(target);
    let file = unfinished(&target, FAMILY)?;
    let lock = write_file(file, parts, &options.metadata)?;
    Ok((metadata, lock))
}

fn create(folder: &Path) -> Result<(), CheckpointError> {
    fs::create_dir_all(folder).map_err(|source| CheckpointError::Folder {
        operation: "create",
        path: folder.to_owned(),
        source,
    })
}

/// Creates the temporary file of a target. Until the file exists, another run may take the folder for one that a killed save
/// left, and remove it.
fn unfinished(target: &Path, family: &str) -> Result<Unfinished, CheckpointError> {
    let mut tries = 0;
    loop {
        match Unfinished::new(target.to_owned(), family) {
            Ok(file) => return Ok(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound && tries < TRIES => {
                tries += 1;
                create(target.parent().unwrap_or(target))?;
            }
            Err(source) => {
                return Err(CheckpointError::Io {
                    operation: "write",
                    path: target.to_owned(),
                    source,
                });
            }
        }
    }
}

/// How often a folder is created again that another run removes.
const TRIES: usize = 100;

/// Returns the parts of a leaf that this process writes. `stored` is the name of the leaf in the files.
fn own_parts<'t>(
    leaf: &'t Tensor,
    name: &str,
    stored: &str,
    rank: usize,
) -> Result<Vec<OwnPart<'t>>, CheckpointError> {
    let failed = |source: TensorError| CheckpointError::Value {
        name: name.to_owned(),
        source: Box::new(source),
    };
    let dtype = savable(name, stored, leaf.dtype())?;
    let shards = leaf.try_shards().map_err(failed)?;
    let devices = leaf.sharding().map_or(1, Sharding::devices);
    // If this process holds all parts, each process does, and one of them writes.
    if shards.len() == devices && rank != 0 {
        return Ok(Vec::new());
    }
    let mut parts: Vec<OwnPart<'t>> = Vec::new();
    for shard in shards {
        let index = shard.index();
        let part = part_name(stored, index, leaf.shape());
        // The parts of a tensor without elements may have the same ranges at different positions.
        if shard.replica() != 0
            || parts
                .iter()
                .any(|other| leaf.is_empty() && other.name == part)
        {
            continue;
        }
        let place = (!is_whole(index, leaf.shape())).then(|| PartPlace {
            tensor: stored.to_owned(),
            shape: leaf.shape().to_vec(),
            begin: index.iter().map(|range| range.start).collect(),
        });
        parts.push(OwnPart {
            name: part,
            dtype,
            shape: index.iter().map(ExactSizeIterator::len).collect(),
            place,
            shard,
        });
    }
    Ok(parts)
}

/// Writes the index of complete files, and removes the files of earlier saves.
fn publish(
    save: &ShardedSave<'_>,
    count: usize,
    number: i64,
    metadata: Metadata,
) -> Result<(), CheckpointError> {
    let names: Vec<String> = (0..count)
        .map(|rank| file_name(number, rank, count))
        .collect();
    let index = Index::of_files(save.path, &names, metadata)?;
    // This also checks that the processes have written each tensor as a whole.
    let folder = StoredFolder::of(index)?;
    let bytes = folder.bytes();
    folder.into_index().write(bytes)?;
    remove_unused(save.path);
    Ok(())
}
