//! Checkpoints by shards: each process writes the parts of tensors that its devices hold.

mod saving;
mod writers;

pub(super) use self::saving::divided;
pub use self::saving::{save_sharded, save_sharded_with};
