//! Checkpoints that consist of several files, so that neither a process nor a device needs the whole model.
//!
//! A checkpoint by shards is a folder. Each process writes one safetensors file with the parts that its devices hold, and the
//! index is written last. The index lists the files, so a folder without an index is no checkpoint. The names of the files
//! are new in each save, so a save never changes the files of the checkpoint before it.
//!
//! - `part.rs`: the names and the places of parts
//! - `index.rs`: the index as text, and its checksum
//! - `opening.rs`: opens the files of an index, and finds the parts of each tensor
//! - `grid.rs`: checks that the parts of a tensor neither overlap nor leave gaps
//! - `region.rs`: reads a region of a tensor from the parts that overlap it
//!
//! The format is described in `docs/reference/formats.md`. A folder of Hugging Face, whose index has the same name, is read, too.

mod grid;
pub(crate) mod index;
pub(crate) mod opening;
pub(crate) mod part;
pub(crate) mod region;
