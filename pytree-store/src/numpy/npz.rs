//! Reads NumPy's archives of arrays, `.npz`.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::DeflateDecoder;
use rawzip::{CompressionMethod, ZipArchive, ZipArchiveEntryWayfinder, ZipSliceArchive};
use thiserror::Error;

use crate::numpy::npy::{ArrayReader, NpyError};

/// A `.npz` file cannot be read.
#[derive(Error)]
#[non_exhaustive]
pub enum NpzError {
    /// The operating system reported an error.
    #[error("cannot read the arrays of `{}`: {source}", .path.display())]
    Io {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file is not a ZIP archive, or is damaged.
    #[error("cannot read the arrays of `{}`: expected an archive of `numpy.savez`, found another or a damaged file ({problem}); write it again with `numpy.savez`", .path.display())]
    Archive {
        /// The path of the file.
        path: PathBuf,
        /// What is wrong with the archive.
        problem: String,
    },
    /// The arrays have more bytes than the limit.
    #[error("cannot read the arrays of `{}`: they have {size} bytes, and the limit is {limit}; if you trust the file, read it with `data::npz::load_within(path, {size})`, and for `checkpoint::load` write these arrays with `checkpoint::save`", .path.display())]
    Large {
        /// The path of the file.
        path: PathBuf,
        /// The number of bytes of the unpacked arrays.
        size: u64,
        /// The greatest number of bytes that may be unpacked.
        limit: u64,
    },
    /// Some arrays of the archive cannot be read. The list has all of them.
    #[error("cannot read {} of the arrays of `{}`: {}", .errors.len(), .path.display(), listed(.errors))]
    Arrays {
        /// The path of the file.
        path: PathBuf,
        /// The name and the error of each array that cannot be read.
        errors: Vec<(String, NpyError)>,
    },
}

pytree_base::debug_as_display!(NpzError);

fn listed(errors: &[(String, NpyError)]) -> String {
    let errors = errors
        .iter()
        .map(|(name, error)| format!("`{name}`: {error}"));
    errors.collect::<Vec<_>>().join("; ")
}

/// Receives the name of an array of an archive, and a reader of its elements.
pub type EachArray<'e> = dyn FnMut(&str, ArrayReader<&[u8]>) -> Result<(), NpyError> + 'e;

/// Calls `each` with the name of each array of a `.npz` file, also of one that is compressed, and a reader of its elements. The arrays
/// may have at most `limit` bytes together: 256 MiB or 16 times the bytes of the file if no limit is given.
///
/// # Errors
/// [`NpzError::Io`] if the file cannot be read, [`NpzError::Archive`] if it is not a ZIP archive, [`NpzError::Arrays`] with each array
/// that is damaged or for which `each` returns an error, and [`NpzError::Large`] if the arrays have more bytes than the limit, which a
/// file of a stranger may have been made for.
pub fn read(path: &Path, limit: Option<u64>, each: &mut EachArray<'_>) -> Result<(), NpzError> {
    let bytes = crate::files::read(path).map_err(|source| NpzError::Io {
        path: path.to_owned(),
        source,
    })?;
    let damaged = |error: rawzip::Error| NpzError::Archive {
        path: path.to_owned(),
        problem: error.to_string(),
    };
    let archive = ZipArchive::from_slice(&bytes[..]).map_err(damaged)?;
    let limit = limit.unwrap_or((16 * bytes.len() as u64).max(256 << 20));
    let mut size = 0_u64;
    let mut members = archive.entries();
    while let Some(member) = members.next_entry().map_err(damaged)? {
        size = size.saturating_add(member.uncompressed_size_hint());
    }
    if size > limit {
        let path = path.to_owned();
        return Err(NpzError::Large { path, size, limit });
    }
    let mut errors = Vec::new();
    let mut members = archive.entries();
    while let Some(member) = members.next_entry().map_err(damaged)? {
        let path_inside = member.file_path();
        let name = String::from_utf8_lossy(path_inside.as_ref());
        let name = name.strip_suffix(".npy").unwrap_or(&name).to_owned();
        let read = unpacked(&archive, member.wayfinder(), member.compression_method());
        let read = read.map_err(NpyError::io("unpack", path));
        let read =
            read.and_then(|bytes| each(&name, ArrayReader::new(&bytes[..], bytes.len() as u64)?));
        errors.extend(read.err().map(|error| (name, error)));
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(NpzError::Arrays {
        path: path.to_owned(),
        errors,
    })
}

/// Returns the bytes of a member after a check of their checksum. The memory grows with the bytes that come, up to the length that the
/// archive claims.
fn unpacked(
    archive: &ZipSliceArchive<&[u8]>,
    member: ZipArchiveEntryWayfinder,
    method: CompressionMethod,
) -> io::Result<Vec<u8>> {
    let entry = archive.get_entry(member).map_err(io::Error::other)?;
    let (data, claimed) = (entry.data(), member.uncompressed_size_hint());
    let mut bytes = Vec::new();
    match method {
        CompressionMethod::STORE => entry.verifying_reader(data).read_to_end(&mut bytes),
        CompressionMethod::DEFLATE => {
            let data = DeflateDecoder::new(data).take(claimed);
            entry.verifying_reader(data).read_to_end(&mut bytes)
        }
        other => Err(io::Error::other(format!(
            "expected arrays as `numpy.savez` or `numpy.savez_compressed` packs them, found the method {other:?}"
        ))),
    }?;
    Ok(bytes)
}
