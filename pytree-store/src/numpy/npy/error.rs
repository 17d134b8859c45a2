//! Errors of `.npy` files.

use std::io;
use std::path::{Path, PathBuf};

use pytree_core::LeafError;
use thiserror::Error;

/// A `.npy` file cannot be read or written.
#[derive(Error)]
#[non_exhaustive]
pub enum NpyError {
    /// The operating system reported an error.
    #[error("cannot {operation} the array `{}`: {source}", .path.display())]
    Io {
        /// The operation that failed: `read`, `write`, or `unpack` for a member of an archive.
        operation: &'static str,
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file is not an array of NumPy, or is damaged.
    #[error("cannot read the array{}: expected {expected}, found {found}; write the file again with `numpy.save`", named(.path.as_deref()))]
    Format {
        /// The path of the file, or `None` if the bytes were not read from a file.
        path: Option<PathBuf>,
        /// What the format requires.
        expected: String,
        /// The actual content.
        found: String,
    },
    /// The file is empty.
    #[error("cannot read the array{}: the file is empty; write it again with `numpy.save`", named(.path.as_deref()))]
    Empty {
        /// The path of the file, or `None` if the bytes were not read from a file.
        path: Option<PathBuf>,
    },
    /// The path is a directory.
    #[error("cannot read the array `{}`: it is a directory; give the path of one of its `.npy` files", .path.display())]
    Directory {
        /// The path.
        path: PathBuf,
    },
    /// The file is a ZIP archive, such as an `.npz` file, which has an `.npy` file for each of its arrays.
    #[error("cannot read the array{}: it is a ZIP archive, such as `numpy.savez` writes; read it with `data::npz::load`, which needs the feature `npz`, or write each array with `numpy.save`", named(.path.as_deref()))]
    Archive {
        /// The path of the file, or `None` if the bytes were not read from a file.
        path: Option<PathBuf>,
    },
    /// The dtype of the array is not a dtype of this library.
    #[error("cannot read the array{}: expected bool, i8 to i64, u8 to u32, f16, bf16, f32 or f64, found the dtype `{descr}`; convert the array with `astype` in NumPy", named(.path.as_deref()))]
    DType {
        /// The path of the file, or `None` if the bytes were not read from a file.
        path: Option<PathBuf>,
        /// The dtype in NumPy's notation.
        descr: String,
    },
    /// The elements of the tensor are not known, or there is no memory for them.
    #[error("cannot read the elements: {source}")]
    Value {
        /// The error of the array.
        source: LeafError,
    },
}

impl NpyError {
    /// Returns the function that makes an error of the operating system an error of an array.
    pub(crate) fn io(operation: &'static str, path: &Path) -> impl Fn(io::Error) -> Self + Copy {
        move |source| Self::Io {
            operation,
            path: path.to_owned(),
            source,
        }
    }

    pub(super) fn format(expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self::Format {
            path: None,
            expected: expected.into(),
            found: found.into(),
        }
    }

    /// Adds the path of the file to the error.
    #[must_use]
    pub fn in_file(mut self, file: &Path) -> Self {
        if let Self::Format { path, .. }
        | Self::DType { path, .. }
        | Self::Empty { path }
        | Self::Archive { path } = &mut self
        {
            *path = Some(file.to_owned());
        }
        self
    }
}

pytree_base::debug_as_display!(NpyError);

fn named(path: Option<&Path>) -> String {
    path.map_or_else(String::new, |path| format!(" `{}`", path.display()))
}
