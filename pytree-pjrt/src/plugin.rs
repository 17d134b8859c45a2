//! Loads plugins. Each plugin is loaded once in a process, and is never unloaded.

use std::path::{Path, PathBuf};

use crate::error::PjrtError;
use crate::sys::Api;

/// A loaded plugin.
#[derive(Debug)]
pub(crate) struct Plugin {
    pub(crate) api: Api,
    pub(crate) path: PathBuf,
    /// The size of the file and the time of its last change. Two builds of a plugin differ in these data.
    pub(crate) build: String,
}

#[cfg(not(any(unix, windows)))]
impl Plugin {
    /// Returns an error, because this target has no shared libraries.
    pub(crate) fn load(path: &Path) -> Result<&'static Self, PjrtError> {
        Err(PjrtError::UnsupportedTarget {
            path: path.to_owned(),
            target: format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
        })
    }
}

#[cfg(any(unix, windows))]
mod elf;

#[cfg(any(unix, windows))]
mod load {
    use std::collections::HashMap;
    use std::fs;
    use std::io::{Read, Seek};
    use std::sync::{Mutex, PoisonError};

    use super::{Api, Path, PathBuf, PjrtError, Plugin, elf};
    use crate::sys::OpenError;

    /// The loaded plugins of this process, by the canonical paths of their files.
    static LOADED: Mutex<Option<HashMap<PathBuf, &'static Plugin>>> = Mutex::new(None);

    impl Plugin {
        /// Loads a plugin. Returns the loaded plugin if this process has already loaded the file.
        pub(crate) fn load(path: &Path) -> Result<&'static Self, PjrtError> {
            let not_found = |_| PjrtError::NotFound {
                path: path.to_owned(),
                absolute: std::path::absolute(path)
                    .ok()
                    .filter(|absolute| absolute != path),
            };
            let canonical = fs::canonicalize(path).map_err(not_found)?;
            // Two threads must not initialize a plugin at the same time.
            let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
            let loaded = loaded.get_or_insert_default();
            if let Some(plugin) = loaded.get(&canonical) {
                return Ok(plugin);
            }
            check_kind(path)?;
            let api = Api::open(&canonical).map_err(|error| explained(path, error))?;
            let build = build(&canonical);
            let plugin = Box::leak(Box::new(Self {
                api,
                path: path.to_owned(),
                build,
            }));
            loaded.insert(canonical, plugin);
            Ok(plugin)
        }
    }

    /// Returns an error for a file that is clearly not a plugin. For other files, the operating system decides.
    fn check_kind(path: &Path) -> Result<(), PjrtError> {
        let refused = |found: &str, fix, reason: &str| {
            Err(PjrtError::NotALibrary {
                path: path.to_owned(),
                found: found.to_owned(),
                fix,
                reason: reason.to_owned(),
            })
        };
        if path.is_dir() {
            let fix = "pass the path of the shared library inside of it";
            return refused("a directory", fix, "the path ends with a directory");
        }
        // Opening a pipe would wait for a writer.
        if !path.is_file() {
            let fix = "pass the path of the shared library";
            return refused(
                "a pipe, a socket or a device",
                fix,
                "it is not a regular file",
            );
        }
        let end = fs::File::open(path).and_then(|mut file| {
            let length = file.metadata()?.len();
            let mut head = [0; 4];
            let is_whole = file.read_exact(&mut head).is_ok();
            file.rewind()?;
            Ok((is_whole.then_some(head), length, elf::end(&mut file)))
        });
        match end {
            Ok((Some(head), ..)) if head == *b"PK\x03\x04" => {
                let fix = "unzip it, and pass the path of the shared library inside of it";
                refused(
                    "a zip archive, such as a wheel of Python",
                    fix,
                    "it begins with `PK`",
                )
            }
            // The system maps such a file without an error. Then reading the missing pages ends the process.
            Ok((_, length, Some(expected))) if expected > length => refused(
                "a file that was cut off",
                "copy or download it again",
                &format!("its header describes {expected} bytes, and the file has {length}"),
            ),
            Ok(_) => Ok(()),
            Err(error) => refused(
                "an unreadable file",
                "check its permissions",
                &error.to_string(),
            ),
        }
    }

    /// Returns whether the file is an extension module of Python, judging by its name.
    fn is_python_extension(path: &Path, reason: &str) -> bool {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.contains(".cpython-")
            || name.contains(".abi3.")
            || name.ends_with(".pyd")
            || reason.contains("undefined symbol: Py")
            || reason.contains("undefined symbol: _Py")
    }

    fn explained(path: &Path, error: OpenError) -> PjrtError {
        const PYTHON: &str = "pass the library of the plugin, whose name usually contains `pjrt`; jaxlib itself contains none";
        let path = path.to_owned();
        match error {
            OpenError::NotALibrary(reason) => {
                let (found, fix) = if is_python_extension(&path, &reason) {
                    ("an extension module of Python", PYTHON)
                } else if reason.contains("invalid ELF header") || reason.contains("file too short")
                {
                    (
                        "a file of another kind",
                        "pass the path of the plugin's shared library",
                    )
                } else {
                    (
                        "a library that the system refuses",
                        "install the libraries that it needs, or use a plugin for this system and processor",
                    )
                };
                PjrtError::NotALibrary {
                    path,
                    found: found.to_owned(),
                    fix,
                    reason,
                }
            }
            OpenError::NotAPlugin => {
                let (found, fix) = if is_python_extension(&path, "") {
                    ("an extension module of Python without it", PYTHON)
                } else {
                    (
                        "a library without it",
                        "pass the library of a plugin, such as the one in the package `jax-cuda13-pjrt`",
                    )
                };
                PjrtError::NotAPlugin { path, found, fix }
            }
            OpenError::Version(major, minor) => PjrtError::Version {
                path,
                oldest: Api::OLDEST,
                found: (major, minor),
            },
            OpenError::Initialize(failure) => PjrtError::plugin(
                format!("initialize the PJRT plugin `{}`", path.display()),
                failure,
            ),
        }
    }

    /// Describes the file of a plugin.
    fn build(path: &Path) -> String {
        let Ok(data) = fs::metadata(path) else {
            return String::new();
        };
        let changed = data.modified().ok();
        let changed = changed.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
        format!("{} bytes, changed at {:?}", data.len(), changed)
    }
}
