//! Saves a checkpoint by shards: which process writes which parts, and when the index is written.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::ops::Range;
use std::path::Path;

use pytree_core::{ArrayLeaf, LeafError, TreeDef};

use crate::files::{Locked, Unfinished};
use crate::format::bytes::savable;
use crate::format::file::io_error;
use crate::format::metadata::Metadata;
use crate::names::leaves::{names, places};
use crate::report::error::CheckpointError;
use crate::saving::part_file::{OwnPart, ReadPart, write_file};
use crate::saving::save::{SaveOptions, checked_metadata, described};
use crate::shards::index::{FAMILY, Index, file_name, remove_unused};
use crate::shards::opening::StoredFolder;
use crate::shards::part::{PartPlace, is_whole, part_name};

/// The processes that write one checkpoint together. They call the functions of this trait in the same order.
pub trait Writers {
    /// Returns the rank of this process.
    fn rank(&self) -> usize;

    /// Returns the number of processes.
    fn count(&self) -> usize;

    /// Sends a number to all processes, and returns the numbers of all processes in the order of the ranks.
    ///
    /// # Errors
    /// The error of the connection.
    fn exchange(&self, number: i64) -> Result<Vec<i64>, LeafError>;
}

/// A part of an array that this process writes.
pub struct LeafPart<'l> {
    /// The range of each axis.
    pub region: Vec<Range<usize>>,
    /// Reads the elements.
    pub read: Box<ReadPart<'l>>,
}

impl fmt::Debug for LeafPart<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeafPart")
            .field("region", &self.region)
            .finish_non_exhaustive()
    }
}

/// The leaves of a value, of which each process holds parts.
pub struct DividedLeaves<'l> {
    /// The structure of the value.
    pub treedef: &'l TreeDef,
    /// The leaves in order, with their dtypes and shapes as a whole.
    pub leaves: &'l [&'l dyn ArrayLeaf],
    /// Returns the parts of the leaf at a position that this process writes. Each part is written by one process, and the parts of all
    /// processes are the whole array.
    pub parts: &'l dyn Fn(usize) -> Result<Vec<LeafPart<'l>>, LeafError>,
    /// The processes.
    pub writers: &'l dyn Writers,
}

impl fmt::Debug for DividedLeaves<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DividedLeaves")
            .field("treedef", self.treedef)
            .finish_non_exhaustive()
    }
}

/// Writes the leaves of a value to a folder. Each process calls this function, and writes the parts that it holds to a file of its own.
/// The process of rank 0 also writes the index. The function returns when the whole checkpoint is complete. The folder must be on a file
/// system that all processes share.
///
/// The save is atomic. The index is written last and replaces the earlier index, so at any time the folder has the earlier or
/// the new checkpoint. The save then removes the files that no index needs. Files of other programs remain.
///
/// # Errors
/// Returns the errors of [`save_with`](crate::checkpoint::save_with), [`CheckpointError::Layout`] if a leaf has another layout under the
/// names of `options`, and [`CheckpointError::Process`] if another process could not write its part. After an error in one process, no
/// process returns `Ok`, and the earlier checkpoint of the folder is unchanged.
pub fn save_parts(
    path: impl AsRef<Path>,
    state: &DividedLeaves<'_>,
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
pub(crate) struct ShardedSave<'s> {
    pub(crate) path: &'s Path,
    pub(crate) options: &'s SaveOptions,
    /// The step and the metric of a checkpoint in a folder of checkpoints.
    pub(crate) progress: Option<(usize, Option<f64>)>,
}

/// Whether a process is the first of those that have written a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The process has written the index.
    First,
    /// The process has written its own file only.
    Other,
}

/// Writes the file of this process, waits for the other processes, and writes the index in the process of rank 0.
pub(crate) fn write(
    state: &DividedLeaves<'_>,
    save: &ShardedSave<'_>,
) -> Result<Role, CheckpointError> {
    let writers = state.writers;
    let exchanged = |number: i64| {
        let all = writers.exchange(number);
        all.map_err(|source| CheckpointError::Value {
            name: "the state of this process together with the others".to_owned(),
            source,
        })
    };
    // The first rank that could not write, if there is one. Waits for all processes.
    let first_failed = |is_done: bool| {
        let all = exchanged(i64::from(is_done))?;
        Ok::<_, CheckpointError>(all.iter().position(|&is_done| is_done == 0))
    };
    let number = exchanged(new_number())?[0];
    // An error is returned only after the exchange, because the other processes wait for this process.
    let own = write_own(state, save, number);
    let refused = first_failed(own.is_ok())?;
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
    let refused = first_failed(published.is_ok())?;
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
    state: &DividedLeaves<'_>,
    save: &ShardedSave<'_>,
    number: i64,
) -> Result<(Metadata, Locked), CheckpointError> {
    pytree_base::span!(INFO, "save", path = %save.path.display());
    let (treedef, leaves) = (state.treedef, state.leaves);
    let (rank, options) = (state.writers.rank(), save.options);
    checked_metadata(options)?;
    create(save.path)?;
    if rank == 0 {
        // What killed saves have left. The other processes have locked their files.
        remove_unused(save.path);
    }
    let own_names = names(treedef);
    let shapes = leaves.iter().map(|leaf| leaf.info().shape);
    let places = places(treedef, shapes, options.names.as_ref());
    let mut parts = Vec::new();
    let mut seen = BTreeSet::new();
    for (leaf, (name, place)) in own_names.iter().zip(&places).enumerate() {
        let is_same = place.part == (0, 1)
            && place.added.is_empty()
            && place.arrangement.is_same()
            && place.arrangement.file_shape() == leaves[leaf].info().shape;
        if !is_same {
            return Err(CheckpointError::Layout { name: name.clone() });
        }
        if !seen.insert(&place.file) {
            let name = place.file.clone();
            return Err(CheckpointError::SameName { name });
        }
        parts.extend(own_parts(state, leaf, name, &place.file)?);
    }
    let mut metadata = match options.names {
        None => described(treedef),
        Some(_) => Metadata::new(String::new(), String::new()),
    };
    metadata.set_statics(treedef)?;
    metadata.extend(&options.metadata);
    if let Some((step, metric)) = save.progress {
        metadata.set_progress(step, metric);
    }
    let target = file_name(number, rank, state.writers.count());
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
            Err(error) => return Err(io_error("write", target)(error)),
        }
    }
}

/// How often a folder is created again that another run removes.
const TRIES: usize = 100;

/// Returns the parts of a leaf that this process writes. `stored` is the name of the leaf in the files.
fn own_parts<'l>(
    state: &DividedLeaves<'l>,
    leaf: usize,
    name: &str,
    stored: &str,
) -> Result<Vec<OwnPart<'l>>, CheckpointError> {
    let info = state.leaves[leaf].info();
    let dtype = savable(name, stored, info.element)?;
    let held = (state.parts)(leaf).map_err(|source| CheckpointError::Value {
        name: name.to_owned(),
        source,
    })?;
    let mut parts: Vec<OwnPart<'l>> = Vec::new();
    for LeafPart { region, read } in held {
        let part = part_name(stored, &region, info.shape);
        // The parts of a tensor without elements may have the same ranges at different positions.
        if info.is_empty() && parts.iter().any(|other| other.name == part) {
            continue;
        }
        let place = (!is_whole(&region, info.shape)).then(|| PartPlace {
            tensor: stored.to_owned(),
            shape: info.shape.to_vec(),
            begin: region.iter().map(|range| range.start).collect(),
        });
        parts.push(OwnPart {
            name: part,
            element: info.element,
            dtype,
            shape: region.iter().map(ExactSizeIterator::len).collect(),
            place,
            read,
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
