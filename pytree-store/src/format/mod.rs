//! The format of checkpoints: safetensors files with metadata and a checksum.

pub(crate) mod bytes;
pub(crate) mod file;
pub(crate) mod metadata;
pub(crate) mod other_format;
