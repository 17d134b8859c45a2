//! Which metric is best has no default.

use pytree::checkpoint::{CheckpointFolder, FolderOptions, Goal};

fn main() {
    let _ = CheckpointFolder::new("run");
    let _ = FolderOptions { keep_last: 2, ..FolderOptions::default() };
    let _ = FolderOptions::new(Goal::Highest);
}
