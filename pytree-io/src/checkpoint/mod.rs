//! Saves and loads the leaves of any pytree in a safetensors file: the functions of [`pytree_store::checkpoint`], and those that need
//! tensors.
//!
//! [`load_as`] builds what it loads without a template. [`save_sharded`] writes tensors that are divided among the devices of a mesh.
//! [`tensors`] reads a file without a template.

mod blank;
mod folder;
mod load_as;
mod sharded;
mod tensors;

pub use self::folder::CheckpointFolder;
pub use self::load_as::load_as;
pub use self::sharded::{save_sharded, save_sharded_with};
pub use self::tensors::{nested_tensors, tensors, tensors_where};
pub use pytree_store::checkpoint::{
    AxisMismatch, Bytes, CheckpointError, Converted, Entry, FolderOptions, Goal, LoadOptions,
    LoadReport, Location, Mismatch, OtherEpsilon, OtherPrefix, SaveOptions, Saved, SavedMetric,
    StaticMismatch, WeightLayout, WeightNames, headers, inspect, load, load_with, metadata, save,
    save_with, statics, to_bytes, to_bytes_with,
};

#[cfg(test)]
mod tests;
