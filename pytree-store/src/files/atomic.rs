//! Writes a file atomically, and reads regular files.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use pytree_base::platform::HAS_FILES;

use crate::files::temporary::{self, Temporary};

/// The maximum number of symbolic links that are followed, as in Linux.
const LINKS: usize = 40;

/// Writes a file atomically: at any time the path has either the old or the new content.
///
/// A symbolic link is followed, and its target is replaced or created. The new file gets the permissions of the
/// replaced file. A hard link to the replaced file keeps the old content. Temporary files that killed processes left
/// for this path are removed.
///
/// # Examples
/// ```
/// let path = std::env::temp_dir().join("pytree-write-example.txt");
/// pytree_store::files::write(&path, b"all of it")?;
/// assert_eq!(std::fs::read(&path)?, b"all of it");
/// # std::fs::remove_file(path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// Returns the error of the file system, or an error if the path names a directory or anything else that is not a
/// regular file. After an error, the old file is unchanged.
pub fn write(path: impl AsRef<Path>, bytes: &[u8]) -> io::Result<()> {
    write_to(path.as_ref(), bytes, None)
}

/// Writes a file like [`write`]. The temporary file belongs to all files of the directory that are written with the
/// same `family`. So temporary files that killed processes left for another file of the family are removed, too.
pub(crate) fn write_in_family(path: &Path, bytes: &[u8], family: &str) -> io::Result<()> {
    write_to(path, bytes, Some(OsStr::new(family)))
}

fn write_to(path: &Path, bytes: &[u8], family: Option<&OsStr>) -> io::Result<()> {
    check_platform()?;
    let target = followed(path)?;
    let old = match fs::metadata(&target) {
        Ok(old) if old.is_file() => Some(old),
        Ok(old) if old.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
        Ok(_) => return Err(not_regular()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let name = target
        .file_name()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path has no file name"))?;
    let directory = existing_folder(&target)?;
    let name = family.unwrap_or(name);
    temporary::remove_dead(directory, name);
    let permissions = old.map(|old| old.permissions());
    let mut temporary = Temporary::new(directory, name, permissions.as_ref())?;
    temporary.write(bytes)?;
    temporary.rename(&target)?;
    sync_directory(&target);
    Ok(())
}

/// A file that is written in pieces, and that has its name only when it is complete. A dropped value leaves no file.
pub(crate) struct Unfinished {
    temporary: Temporary,
    target: PathBuf,
}

impl Unfinished {
    /// Creates a temporary file for `target`. Temporary files of the same family that killed processes left in the
    /// directory are removed.
    pub(crate) fn new(target: PathBuf, family: &str) -> io::Result<Self> {
        let directory = target.parent().unwrap_or(Path::new("."));
        let family = OsStr::new(family);
        temporary::remove_dead(directory, family);
        let temporary = Temporary::new(directory, family, None)?;
        Ok(Self { temporary, target })
    }

    /// Returns the path that the complete file will have.
    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    /// Returns the file, to write its content.
    pub(crate) fn file(&mut self) -> &mut File {
        self.temporary.file()
    }

    /// Gives the complete file its name. While the result exists, [`remove_unless_locked`] does not remove the file.
    pub(crate) fn finish(self) -> io::Result<Locked> {
        let file = self.temporary.rename_locked(&self.target)?;
        sync_directory(&self.target);
        Ok(Locked { _file: file })
    }
}

/// The lock on a complete file, which ends when this value is dropped.
pub(crate) struct Locked {
    _file: File,
}

/// Removes the temporary files that killed processes left in a directory for the files of a family.
pub(crate) fn remove_dead(directory: &Path, family: &str) {
    temporary::remove_dead(directory, OsStr::new(family));
}

/// Removes a file, unless a writer has locked it, or `is_used` returns that it is used. `is_used` is called while no writer
/// can have locked the file. Errors are ignored: a file that remains does no harm.
pub(crate) fn remove_unless_locked(path: &Path, is_used: impl FnOnce() -> bool) {
    let Ok(file) = open(path) else { return };
    if file.try_lock().is_ok() && !is_used() {
        let _ = fs::remove_file(path);
    }
}

/// Flushes the name of a file to the disk. An error is ignored, because a rename is atomic even if this step fails.
fn sync_directory(path: &Path) {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if let Ok(directory) = File::open(directory) {
        let _ = directory.sync_all();
    }
}

/// Opens a regular file to read it.
///
/// # Errors
/// Returns the error of the file system, or an error if the path names something else: opening a pipe would wait for
/// a writer for ever, and a device may have no end.
pub fn open(path: &Path) -> io::Result<File> {
    check_platform()?;
    let found = fs::metadata(path)?;
    if found.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !found.is_file() {
        return Err(not_regular());
    }
    File::open(path)
}

/// Reads a whole regular file.
///
/// # Errors
/// Returns the errors of [`open`].
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns an error on a platform without files.
fn check_platform() -> io::Result<()> {
    if HAS_FILES {
        return Ok(());
    }
    let problem = "this platform has no files; use the functions of bytes, such as `checkpoint::to_bytes` and `checkpoint::Bytes`";
    Err(io::Error::new(io::ErrorKind::Unsupported, problem))
}

/// Returns the error for a path that names a pipe, a socket or a device.
pub fn not_regular() -> io::Error {
    let problem = "the path does not name a regular file, but a pipe, a socket or a device";
    io::Error::new(io::ErrorKind::InvalidInput, problem)
}

/// Returns the folder of a file that is to be written.
///
/// # Errors
/// Returns an error that names the folder if it does not exist. The error of the system would be "No such file or
/// directory", as if the file had to exist.
pub fn existing_folder(file: &Path) -> io::Result<&Path> {
    check_platform()?;
    let folder = match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if folder.exists() {
        return Ok(folder);
    }
    let problem = format!(
        "the folder `{}` does not exist; create it with `std::fs::create_dir_all`",
        folder.display()
    );
    Err(io::Error::new(io::ErrorKind::NotFound, problem))
}

/// Returns a name that a temporary file of a killed process may have.
#[cfg(test)]
pub(crate) fn leftover_name(target: &OsStr) -> String {
    temporary::unique_name(target, 0)
}

/// Returns the target of a chain of symbolic links, even if no file exists there.
fn followed(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        match fs::symlink_metadata(&path) {
            Ok(found) if found.is_symlink() => {}
            _ => return Ok(path),
        }
        let link = fs::read_link(&path)?;
        // A relative link starts at its own directory. `join` replaces the whole path by an
        // absolute link.
        path = path.parent().unwrap_or(Path::new("")).join(link);
    }
    let problem = "too many levels of symbolic links";
    Err(io::Error::new(io::ErrorKind::InvalidInput, problem))
}
