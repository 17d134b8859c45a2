//! Files that are written whole or not at all.
//!
//! The bytes go to a temporary file in the target's directory, which is flushed to the disk and then takes the target's
//! place. Its name is unique also among containers that share a directory but not their process numbers, and short
//! whatever the target's name is. Its writer holds a lock on it: a temporary file that nobody locks belongs to a run
//! that was killed, and the next write to the same target removes it.

mod temporary;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use self::temporary::Temporary;

/// The most links that are followed one after the other, as in Linux.
const LINKS: usize = 40;

/// Writes a file that appears complete or not at all: at any time there is the old one or the new one.
///
/// A symbolic link is followed, and the file that it leads to is replaced, or made. The permissions of a file that is
/// replaced are kept; a hard link to it keeps the old content. Temporary files of runs that were killed while they wrote
/// this file are removed.
///
/// # Examples
/// ```
/// let path = std::env::temp_dir().join("pytree-write-example.txt");
/// pytree_nn::files::write(&path, b"all of it")?;
/// assert_eq!(std::fs::read(&path)?, b"all of it");
/// # std::fs::remove_file(path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// What the file system refuses, also if the path names a directory or anything else that is not a regular file. The
/// old file is as it was.
pub fn write(path: impl AsRef<Path>, bytes: &[u8]) -> io::Result<()> {
    let target = followed(path.as_ref())?;
    let old = match fs::metadata(&target) {
        Ok(old) if old.is_file() => Some(old),
        Ok(old) if old.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
        Ok(_) => {
            let problem = "the path names something else than a regular file";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let name = target
        .file_name()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path names no file"))?;
    let directory = match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    temporary::remove_dead(directory, name);
    let permissions = old.map(|old| old.permissions());
    let mut temporary = Temporary::new(directory, name, permissions.as_ref())?;
    temporary.write(bytes)?;
    temporary.rename(&target)?;
    // The new name must reach the disk too; where a directory can't be flushed the rename still is atomic.
    if let Ok(directory) = File::open(directory) {
        let _ = directory.sync_all();
    }
    Ok(())
}

/// The path that a chain of symbolic links leads to, also if nothing is there.
fn followed(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        match fs::symlink_metadata(&path) {
            Ok(found) if found.is_symlink() => {}
            _ => return Ok(path),
        }
        let link = fs::read_link(&path)?;
        // A relative one is counted from the directory of the link; an absolute one replaces all of the path.
        path = path.parent().unwrap_or(Path::new("")).join(link);
    }
    let problem = "too many symbolic links lead to one another";
    Err(io::Error::new(io::ErrorKind::InvalidInput, problem))
}

#[cfg(test)]
mod tests;
