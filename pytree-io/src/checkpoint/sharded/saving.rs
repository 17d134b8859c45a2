//! Saves tensors that are divided among the devices of a mesh.

use std::path::Path;

use pytree_core::{ArrayLeaf, LeafError, PytreeOf, graph};
use pytree_store::checkpoint::{CheckpointError, SaveOptions};
use pytree_store::parts::{DividedLeaves, LeafPart, Writers as _, save_parts};
use pytree_transform::Tensor;
use pytree_transform::device::{Shard, Sharding};

use crate::checkpoint::sharded::writers::MeshWriters;

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
    divided(state, |state| save_parts(path, state, options))
}

/// Calls `save` with the parts of the tensors of a value that this process writes.
pub(crate) fn divided<T: PytreeOf<Tensor>, R>(
    state: &T,
    save: impl FnOnce(&DividedLeaves<'_>) -> Result<R, CheckpointError>,
) -> Result<R, CheckpointError> {
    // This reads all references at one instant, even if other threads write them.
    let (leaves, treedef) = graph::try_flatten::<Tensor, T>(state)?;
    let writers = MeshWriters::of(&leaves);
    let arrays: Vec<&dyn ArrayLeaf> = leaves.iter().map(|leaf| leaf as _).collect();
    save(&DividedLeaves {
        treedef: &treedef,
        leaves: &arrays,
        parts: &|leaf| own_parts(&leaves[leaf], &writers),
        writers: &writers,
    })
}

/// Returns the parts of a tensor that this process writes.
fn own_parts<'t>(leaf: &'t Tensor, writers: &MeshWriters) -> Result<Vec<LeafPart<'t>>, LeafError> {
    let shards = leaf.try_shards()?;
    let devices = leaf.sharding().map_or(1, Sharding::devices);
    // If this process holds all parts, each process does, and one of them writes.
    if shards.len() == devices && writers.rank() != 0 {
        return Ok(Vec::new());
    }
    let first = shards.into_iter().filter(|shard| shard.replica() == 0);
    Ok(first.map(part).collect())
}

fn part(shard: Shard<'_>) -> LeafPart<'_> {
    LeafPart {
        region: shard.index().to_vec(),
        read: Box::new(move |each| each(shard.try_read()?.try_bytes()?)),
    }
}
