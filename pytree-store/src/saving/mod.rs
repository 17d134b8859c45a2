//! Writes checkpoints: one file, one file for each process, or a folder with the last and the best checkpoints of a run.

pub(crate) mod divided;
pub(crate) mod folder;
pub(crate) mod goal;
pub(crate) mod part_file;
pub(crate) mod save;
