//! The folder of checkpoints, with saves by shards.

use std::ops::Deref;
use std::path::PathBuf;

use pytree_core::PytreeOf;
use pytree_store::checkpoint::{
    self as store, CheckpointError, FolderOptions, Goal, Saved, SavedMetric,
};
use pytree_transform::Tensor;

use crate::checkpoint::sharded::divided;

/// A folder that keeps the last checkpoints of a training run and the best: a [`pytree_store::checkpoint::CheckpointFolder`], which has
/// the other methods, with saves by shards.
///
/// # Examples
/// ```
/// use pytree_io::checkpoint::{self, CheckpointFolder, FolderOptions, Goal};
/// use pytree_nn::{Linear, Rngs};
/// let mut rngs = Rngs::new(0);
/// let directory = std::env::temp_dir().join("pytree-folder-tensors-example");
/// let options = FolderOptions { keep_last: 2, ..FolderOptions::new(Goal::Minimize) };
/// let folder = CheckpointFolder::with_options(&directory, options)?;
/// for (step, loss) in [(100, 0.9), (200, 0.5), (300, 0.7), (400, 0.6)] {
///     folder.save(step, &Linear::new(2, 3, &mut rngs), loss)?;
/// }
/// let steps: Vec<usize> = folder.list()?.iter().map(|saved| saved.step).collect();
/// assert_eq!(steps, [200, 300, 400]); // the last two, and the best
///
/// let latest = folder.latest()?.expect("a checkpoint was saved");
/// let model = checkpoint::load(&latest.path, &Linear::new(2, 3, &mut rngs))?;
/// assert_eq!((latest.step, model.weight.shape()), (400, &[2, 3][..]));
/// # std::fs::remove_dir_all(directory)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "orbax.checkpoint.CheckpointManager")]
#[derive(Clone, Debug)]
pub struct CheckpointFolder(store::CheckpointFolder);

impl Deref for CheckpointFolder {
    type Target = store::CheckpointFolder;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl CheckpointFolder {
    /// Creates the folder, unless it exists, and keeps the last three checkpoints and the one with the best metric.
    ///
    /// The goal says which metric is best: [`Goal::Minimize`] for a loss, [`Goal::Maximize`] for an accuracy. It has no effect
    /// on checkpoints that are saved without a metric.
    ///
    /// # Errors
    /// Returns [`CheckpointError::Folder`] if the folder cannot be created.
    pub fn new(directory: impl Into<PathBuf>, goal: Goal) -> Result<Self, CheckpointError> {
        store::CheckpointFolder::new(directory, goal).map(Self)
    }

    /// Creates the folder, unless it exists, with the given options.
    ///
    /// # Errors
    /// Returns [`CheckpointError::Folder`] if the folder cannot be created.
    pub fn with_options(
        directory: impl Into<PathBuf>,
        options: FolderOptions,
    ) -> Result<Self, CheckpointError> {
        store::CheckpointFolder::with_options(directory, options).map(Self)
    }

    /// Saves a checkpoint by shards, and then removes old checkpoints like [`save`](store::CheckpointFolder::save). On a mesh of processes, each
    /// process calls this function with the same step and metric. See
    /// [`save_sharded_with`](crate::checkpoint::save_sharded_with).
    ///
    /// # Examples
    /// ```
    /// use pytree_io::checkpoint::{self, CheckpointFolder, Goal};
    /// use pytree_nn::{Linear, Rngs};
    /// let directory = std::env::temp_dir().join("pytree-folder-sharded-example");
    /// let folder = CheckpointFolder::new(&directory, Goal::Minimize)?;
    /// let model = Linear::new(2, 3, &mut Rngs::new(0));
    /// let saved = folder.save_sharded(100, &model, 0.9)?;
    /// assert!(saved.path.ends_with("step-0000000100"));
    /// assert_eq!(checkpoint::load(&saved.path, &model)?, model);
    /// # std::fs::remove_dir_all(directory)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`save_sharded_with`](crate::checkpoint::save_sharded_with), and [`CheckpointError::Folder`] if an
    /// old checkpoint cannot be removed. The new checkpoint then exists.
    pub fn save_sharded<T: PytreeOf<Tensor>>(
        &self,
        step: usize,
        state: &T,
        metric: impl Into<SavedMetric>,
    ) -> Result<Saved, CheckpointError> {
        divided(state, |state| self.0.save_parts(step, state, metric))
    }
}
