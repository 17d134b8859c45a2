//! Writes files atomically.
//!
//! The bytes are written to a temporary file in the directory of the target. The temporary file is flushed to the disk
//! and then renamed to the target. The name of the temporary file is short even if the name of the target is long. The
//! name is unique even if containers with equal process numbers share a directory. The writer holds a lock on the
//! temporary file. A temporary file without a lock belongs to a killed process, and the next write to the same target
//! removes it.

mod atomic;
mod temporary;

pub(crate) use self::atomic::{
    Locked, Unfinished, remove_dead, remove_unless_locked, write_in_family,
};
pub use self::atomic::{existing_folder, not_regular, open, read, write};

#[cfg(test)]
pub(crate) use self::atomic::leftover_name;

#[cfg(test)]
mod tests;
