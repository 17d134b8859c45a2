//! Checkpoints that consist of several files, so that neither a process nor a device needs the whole model.
//!
//! A checkpoint by shards is a folder. Each process writes one safetensors file with the parts that its devices hold, and the
//! index is written last. The index lists the files, so a folder without an index is no checkpoint. The names of the files
//! are new in each save, so a save never changes the files of the checkpoint before it.
//!
//! - `part.rs`: the names and the places of parts
//! - `writing.rs`: writes the file of one process
//! - `saving.rs`: which process writes which parts, and when the index is written
//! - `writers.rs`: the processes that write one checkpoint together
//! - `index.rs`: the index as text, and its checksum
//! - `opening.rs`: opens the files of an index, and finds the parts of each tensor
//! - `grid.rs`: checks that the parts of a tensor neither overlap nor leave gaps
//! - `region.rs`: reads a region of a tensor from the parts that overlap it
//!
//! The format is described in `docs/reference/formats.md`. A folder of Hugging Face, whose index has the same name, is read, too.

mod grid;
mod index;
mod opening;
mod part;
mod region;
mod saving;
mod writers;
mod writing;

pub(super) use self::index::{Index, clean, index_path, remove};
pub(super) use self::opening::StoredFolder;
pub(super) use self::saving::{Role, ShardedSave, write};
pub use self::saving::{save_sharded, save_sharded_with};

/// The number of bytes of a part that have one checksum. A reader reads whole blocks.
const BLOCK: usize = 1 << 18;

/// Returns the checksum of a block, in hexadecimal digits.
fn block_checksum(bytes: &[u8]) -> String {
    format!("{:032x}", xxhash_rust::xxh3::xxh3_128(bytes))
}
