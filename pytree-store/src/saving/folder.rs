//! A folder with the checkpoints of a training run, which keeps the last ones and the best.
//!
//! A checkpoint has its step in its name, `step-0000000100.safetensors`, and step and metric in its metadata. Only files
//! with such a name and with the same step in the metadata belong to the folder. Other files are neither listed nor
//! deleted. A checkpoint by shards is a folder `step-0000000100`. Without an index, such a folder is a save that has not ended.
//! Each save removes its files, unless a writer has locked them: the writer of another run, or another process of this run.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use pytree_core::Pytree;

use crate::loading::source::metadata_of;
use crate::report::error::CheckpointError;
use crate::saving::divided::{DividedLeaves, Role, ShardedSave, write};
use crate::saving::goal::Goal;
use crate::saving::save::{SaveOptions, save_in_folder};
use crate::shards::index::{clean, remove};

const BEGINNING: &str = "step-";
const END: &str = ".safetensors";

/// The name under which all checkpoints of a folder write their temporary files. So each save finds the temporary files
/// that a killed process left for any step.
const FAMILY: &str = "step-*.safetensors";

/// The maximum number of digits of a step, and the number of digits that a name has at least.
const DIGITS: usize = 10;

/// The metric of a checkpoint: a Rust number, or `None`. Read the number of a tensor with `item`.
///
/// # Examples
/// ```
/// use pytree_store::checkpoint::SavedMetric;
/// assert_eq!(SavedMetric::from(0.5_f32), SavedMetric::from(0.5_f64));
/// assert_ne!(SavedMetric::from(None), SavedMetric::from(3_usize));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SavedMetric(Option<f64>);

impl From<Option<f64>> for SavedMetric {
    fn from(metric: Option<f64>) -> Self {
        Self(metric)
    }
}

macro_rules! metrics {
    ($($number:ty),*) => {$(
        impl From<$number> for SavedMetric {
            #[allow(clippy::cast_lossless, trivial_numeric_casts, reason = "of some types only")]
            fn from(metric: $number) -> Self {
                Self(Some(metric as f64))
            }
        }
    )*};
}
metrics!(f32, f64, i32, i64, u32, u64, usize);

/// The options of a [`CheckpointFolder`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderOptions {
    /// The number of last checkpoints that are kept. The default is 3. The number 0 keeps only the best checkpoint and
    /// the checkpoint that was just saved.
    pub keep_last: usize,
    /// Whether the checkpoint with the lowest or the highest metric is the best.
    pub goal: Goal,
    /// The options of each save, such as further metadata. The default is [`SaveOptions::new`].
    pub save: SaveOptions,
}

impl FolderOptions {
    /// Returns the default options for a metric with the given goal.
    pub fn new(goal: Goal) -> Self {
        Self {
            keep_last: 3,
            goal,
            save: SaveOptions::new(),
        }
    }
}

/// A checkpoint in a folder.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Saved {
    /// The step of the training run.
    pub step: usize,
    /// The metric, if the checkpoint was saved with a metric.
    pub metric: Option<f64>,
    /// The path of the file, or of the folder of a checkpoint by shards, for [`load`](crate::checkpoint::load()).
    pub path: PathBuf,
}

/// A folder that keeps the last checkpoints of a training run and the best.
///
/// Each save is atomic. A save removes what killed processes left, and the checkpoints that are neither among
/// the last nor the best. Files of other programs are never deleted. A file whose header cannot be read is ignored. Do not copy a
/// checkpoint by shards into the folder of a run that saves: without its index, it is taken for a save that was killed.
///
/// # Examples
/// ```
/// use ndarray::{Array2, array};
/// use pytree_store::checkpoint::{self, CheckpointFolder, FolderOptions, Goal};
/// let directory = std::env::temp_dir().join("pytree-folder-example");
/// let options = FolderOptions { keep_last: 2, ..FolderOptions::new(Goal::Minimize) };
/// let folder = CheckpointFolder::with_options(&directory, options)?;
/// for (step, loss) in [(100, 0.9), (200, 0.5), (300, 0.7), (400, 0.6)] {
///     folder.save(step, &(array![[loss as f32]], step as i64), loss)?;
/// }
/// let steps: Vec<usize> = folder.list()?.iter().map(|saved| saved.step).collect();
/// assert_eq!(steps, [200, 300, 400]); // the last two, and the best
/// assert_eq!(folder.best()?.map(|saved| saved.metric), Some(Some(0.5)));
///
/// let latest = folder.latest()?.expect("a checkpoint was saved");
/// let (_, step) = checkpoint::load(&latest.path, &(Array2::<f32>::zeros((1, 1)), 0_i64))?;
/// assert_eq!((latest.step, step), (400, 400));
/// # std::fs::remove_dir_all(directory)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "orbax.checkpoint.CheckpointManager")]
#[derive(Clone, Debug)]
pub struct CheckpointFolder {
    directory: PathBuf,
    options: FolderOptions,
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
        Self::with_options(directory, FolderOptions::new(goal))
    }

    /// Creates the folder, unless it exists, with the given options.
    ///
    /// # Errors
    /// Returns [`CheckpointError::Folder`] if the folder cannot be created.
    pub fn with_options(
        directory: impl Into<PathBuf>,
        options: FolderOptions,
    ) -> Result<Self, CheckpointError> {
        let directory = directory.into();
        fs::create_dir_all(&directory).map_err(|source| failed("create", &directory, source))?;
        Ok(Self { directory, options })
    }

    /// Returns the path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.directory
    }

    /// Saves a checkpoint, and then removes the checkpoints that are neither among the last nor the best. The
    /// checkpoint that was just saved always remains.
    ///
    /// The last checkpoints are those with the highest steps. A `metric` is a Rust number or `None`; see
    /// [`SavedMetric`]. A checkpoint with NaN or without a metric is never the best.
    ///
    /// # Errors
    /// Returns the errors of [`save_with`](crate::checkpoint::save_with), and [`CheckpointError::Folder`] if an old
    /// checkpoint cannot be removed. The new checkpoint then exists.
    pub fn save<T: Pytree>(
        &self,
        step: usize,
        state: &T,
        metric: impl Into<SavedMetric>,
    ) -> Result<Saved, CheckpointError> {
        let metric = metric.into().0;
        let name = format!("{BEGINNING}{step:0DIGITS$}{END}");
        let path = self.directory.join(name);
        self.clean()?;
        save_in_folder(&path, state, &self.options.save, (step, metric), FAMILY)?;
        self.remove_old(step)?;
        Ok(Saved { step, metric, path })
    }

    /// Saves a checkpoint by shards like [`save_parts`](crate::parts::save_parts), and then removes old checkpoints like
    /// [`save`](Self::save). Each process calls this function with the same step and metric.
    ///
    /// # Errors
    /// Returns the errors of [`save_parts`](crate::parts::save_parts), and [`CheckpointError::Folder`] if an old checkpoint cannot be
    /// removed. The new checkpoint then exists.
    pub fn save_parts(
        &self,
        step: usize,
        state: &DividedLeaves<'_>,
        metric: impl Into<SavedMetric>,
    ) -> Result<Saved, CheckpointError> {
        let metric = metric.into().0;
        let path = self.directory.join(format!("{BEGINNING}{step:0DIGITS$}"));
        self.clean()?;
        let save = ShardedSave {
            path: &path,
            options: &self.options.save,
            progress: Some((step, metric)),
        };
        if write(state, &save)? == Role::First {
            self.remove_old(step)?;
        }
        Ok(Saved { step, metric, path })
    }

    /// Removes what killed saves by shards left.
    fn clean(&self) -> Result<(), CheckpointError> {
        for entry in self.entries()? {
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder && step_of(&entry.file_name(), "").is_some() {
                clean(&entry.path());
            }
        }
        Ok(())
    }

    /// Returns the entries of the folder that are still there.
    fn entries(&self) -> Result<Vec<fs::DirEntry>, CheckpointError> {
        let entries = fs::read_dir(&self.directory).and_then(Iterator::collect);
        entries.map_err(|source| failed("list", &self.directory, source))
    }

    /// Removes old checkpoints. Keeps the last ones, the best one, and that of `step`.
    fn remove_old(&self, step: usize) -> Result<(), CheckpointError> {
        let listed = self.list()?;
        let best = best(&listed, self.options.goal).map(|saved| saved.step);
        let last = listed.len().saturating_sub(self.options.keep_last);
        for old in &listed[..last] {
            if Some(old.step) == best || old.step == step {
                continue;
            }
            let removed = if old.path.is_dir() {
                remove(&old.path)
            } else {
                fs::remove_file(&old.path)
            };
            match removed {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    return Err(failed(
                        "remove an old checkpoint from",
                        &self.directory,
                        source,
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Lists the checkpoints of the folder in the order of their steps. Reads only the headers of
    /// files and the indices of checkpoints by shards.
    ///
    /// # Errors
    /// Returns [`CheckpointError::Folder`] if the folder cannot be read.
    pub fn list(&self) -> Result<Vec<Saved>, CheckpointError> {
        let mut listed = Vec::new();
        for entry in self.entries()? {
            let name = entry.file_name();
            let step = match entry.file_type() {
                Ok(kind) if kind.is_file() => step_of(&name, END),
                Ok(kind) if kind.is_dir() => step_of(&name, ""),
                _ => None,
            };
            listed.extend(step.and_then(|step| saved_at(entry.path(), step)));
        }
        listed.sort_by_key(|saved| saved.step);
        Ok(listed)
    }

    /// Returns the checkpoint with the highest step, or `None` if the folder has no checkpoint.
    ///
    /// Checkpoints of an earlier run count, too. If a new run begins at step 0 in the folder of an older run, `latest` still returns
    /// the older run's last checkpoint, and each save of the new run removes its own previous checkpoint first. So give each
    /// run a folder of its own, and call `latest` before the first save to continue a run.
    ///
    /// # Errors
    /// Returns [`CheckpointError::Folder`] if the folder cannot be read.
    pub fn latest(&self) -> Result<Option<Saved>, CheckpointError> {
        Ok(self.list()?.pop())
    }

    /// Returns the checkpoint with the best metric, the first if several have it. `None` if no checkpoint has a metric.
    ///
    /// # Errors
    /// Returns [`CheckpointError::Folder`] if the folder cannot be read.
    pub fn best(&self) -> Result<Option<Saved>, CheckpointError> {
        Ok(best(&self.list()?, self.options.goal).cloned())
    }
}

fn best(listed: &[Saved], goal: Goal) -> Option<&Saved> {
    let mut best: Option<(&Saved, f64)> = None;
    for saved in listed {
        let Some(metric) = saved.metric.filter(|metric| !metric.is_nan()) else {
            continue;
        };
        if best.is_none_or(|(_, other)| goal.is_better(metric, other)) {
            best = Some((saved, metric));
        }
    }
    best.map(|(saved, _)| saved)
}

/// Returns the step in the name of a checkpoint, which ends with `end`. Returns `None` for another name.
fn step_of(name: &OsStr, end: &str) -> Option<usize> {
    let digits = name.to_str()?.strip_prefix(BEGINNING)?.strip_suffix(end)?;
    let step: usize = digits.parse().ok()?;
    (format!("{step:0DIGITS$}") == digits).then_some(step)
}

/// Returns a checkpoint of the folder, or `None` if the file cannot be read or has no step of its name in its metadata.
fn saved_at(path: PathBuf, step: usize) -> Option<Saved> {
    let metadata = metadata_of(&path).ok()?;
    let (found, metric) = metadata.progress()?;
    (found == step).then_some(Saved { step, metric, path })
}

fn failed(operation: &'static str, directory: &Path, source: io::Error) -> CheckpointError {
    CheckpointError::Folder {
        operation,
        path: directory.to_owned(),
        source,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::files::leftover_name;

    #[test]
    fn temporary_files_of_killed_writers_are_removed() {
        let unique = format!("pytree-store-leftovers-{}", std::process::id());
        let directory = std::env::temp_dir().join(unique);
        let folder = CheckpointFolder::new(&directory, Goal::Minimize).unwrap();
        // A process that was killed while it saved another step has left a temporary file. No process locks this file.
        let left = |target: &str| folder.path().join(leftover_name(OsStr::new(target)));
        let (leftover, other) = (left(FAMILY), left("model.safetensors"));
        fs::write(&leftover, "half").unwrap();
        fs::write(&other, "half").unwrap();
        assert_eq!(folder.list().unwrap(), []);
        folder.save(8, &1.0_f32, None).unwrap();
        assert!(!leftover.exists() && other.exists());
        assert_eq!(folder.latest().unwrap().unwrap().step, 8);
        fs::remove_dir_all(directory).unwrap();
    }
}
