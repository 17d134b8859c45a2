//! Temporary files: their names, their locks, and the removal of files that killed processes left.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64;

/// The prefix of the names of all temporary files. The prefix is followed by a hash of the target's name.
const BEGINNING: &str = ".pytree-";
const END: &str = ".tmp";

/// A temporary file. When this value is dropped, the file is removed unless it was renamed.
pub(crate) struct Temporary {
    file: File,
    path: PathBuf,
    permissions: Option<Permissions>,
    is_renamed: bool,
}

impl Temporary {
    /// Creates and locks a temporary file in `directory`, which contains the file `target`. If `target` exists,
    /// `permissions` are the permissions of `target`. The temporary file gets the same permissions.
    pub(crate) fn new(
        directory: &Path,
        target: &OsStr,
        permissions: Option<&Permissions>,
    ) -> io::Result<Self> {
        loop {
            let path = directory.join(unique_name(target, std::process::id()));
            let file = create(&path, permissions)?;
            let made = Self {
                file,
                path,
                permissions: permissions.cloned(),
                is_renamed: false,
            };
            // The error of a file system without locks is ignored: other writers cannot lock this file either, so they
            // do not remove the file.
            let _ = made.file.lock();
            // Another writer may have removed the file before it was locked.
            if made.path.try_exists()? {
                return Ok(made);
            }
        }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        // Set the permissions before the content is written, so that nobody else can read private data.
        if let Some(permissions) = &self.permissions {
            self.file.set_permissions(permissions.clone())?;
        }
        self.file.write_all(bytes)?;
        self.file.sync_all()
    }

    /// Returns the file, for content that is written in pieces.
    pub(crate) fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Flushes the file to the disk, renames it to its target, and returns it. The lock is held until the returned file is
    /// closed.
    pub(crate) fn rename_locked(mut self, target: &Path) -> io::Result<File> {
        self.file.sync_all()?;
        let file = self.file.try_clone()?;
        replace(&self.path, target)?;
        self.is_renamed = true;
        Ok(file)
    }

    /// Renames the file to its target.
    pub(crate) fn rename(mut self, target: &Path) -> io::Result<()> {
        replace(&self.path, target)?;
        self.is_renamed = true;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.is_renamed {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Renames a file. Windows refuses to replace a file that another process has open, for instance a writer that has just
/// renamed it, or a virus scanner. So the rename is tried again there, for one to a few seconds.
fn replace(path: &Path, target: &Path) -> io::Result<()> {
    let mut attempts = if cfg!(windows) { 1_000 } else { 1 };
    loop {
        attempts -= 1;
        match fs::rename(path, target) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && attempts > 0 => {
                thread::sleep(Duration::from_millis(1));
            }
            result => return result,
        }
    }
}

fn create(path: &Path, permissions: Option<&Permissions>) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if let Some(permissions) = permissions {
        use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
        options.mode(permissions.mode() & 0o777);
    }
    #[cfg(not(unix))]
    let _ = permissions;
    options.open(path)
}

/// Returns the prefix that the names of a target's temporary files have.
fn beginning(target: &OsStr) -> String {
    format!("{BEGINNING}{:016x}-", xxh3_64(target.as_encoded_bytes()))
}

/// Returns a unique name for a temporary file. The name contains a random number, because containers that share a
/// directory may have equal process numbers.
pub(crate) fn unique_name(target: &OsStr, process: u32) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    // The keys of a `RandomState` are random numbers from the operating system.
    let random = RandomState::new().hash_one((process, count));
    format!(
        "{}{process:x}-{count:x}-{random:016x}{END}",
        beginning(target)
    )
}

/// Removes the temporary files of a target, unless a writer has locked them. Errors are ignored: a file that remains
/// does no harm.
pub(crate) fn remove_dead(directory: &Path, target: &OsStr) {
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    let beginning = beginning(target);
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_ours = name
            .to_str()
            .is_some_and(|name| name.starts_with(&beginning) && name.ends_with(END));
        if !is_ours || !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        let Ok(file) = File::open(entry.path()) else {
            continue;
        };
        match file.try_lock() {
            // The lock is held until the name is removed. A writer may have created this file, but not locked it yet.
            // After this writer gets the lock, it checks whether the name still exists.
            Ok(()) => drop(fs::remove_file(entry.path())),
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => {}
        }
    }
}
