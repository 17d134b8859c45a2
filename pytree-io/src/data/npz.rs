//! Reads NumPy's archives of arrays, `.npz`.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::DeflateDecoder;
use pytree_transform::Tensor;
use rawzip::{CompressionMethod, ZipArchive, ZipArchiveEntryWayfinder, ZipSliceArchive};
use thiserror::Error;

use crate::data::npy::{self, NpyError};

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

impl std::fmt::Debug for NpzError {
    /// Writes the message, because `unwrap` and a `main` that returns the error print the debug form.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

fn listed(errors: &[(String, NpyError)]) -> String {
    let errors = errors
        .iter()
        .map(|(name, error)| format!("`{name}`: {error}"));
    errors.collect::<Vec<_>>().join("; ")
}

/// Reads all arrays of a `.npz` file by their names, also of one that is compressed. The dtypes are those of [`npy::load`].
///
/// Many published models of JAX are such files. Their names have slashes, for instance `Transformer/encoderblock_0/LayerNorm_0/scale`.
///
/// # Examples
/// ```no_run
/// use pytree_io::data::npz;
/// let arrays = npz::load("ViT-B_16.npz")?;
/// for (name, array) in &arrays {
///     println!("{name}: {}", array.info());
/// }
/// # Ok::<(), npz::NpzError>(())
/// ```
///
/// # Errors
/// [`NpzError::Io`] if the file cannot be read, [`NpzError::Archive`] if it is not a ZIP archive, [`NpzError::Arrays`] with each array
/// that is damaged or has a dtype that the library lacks, and [`NpzError::Large`] if the arrays have more than 256 MiB and more than 16
/// times the bytes of the file, which a file of a stranger may have been made for. [`load_within`] has another limit.
#[doc(alias("np.load", "jnp.load"))]
pub fn load(path: impl AsRef<Path>) -> Result<BTreeMap<String, Tensor>, NpzError> {
    read(path.as_ref(), None)
}

/// Reads all arrays of a `.npz` file like [`load`], if they have at most `limit` bytes.
///
/// # Errors
/// The errors of [`load`].
pub fn load_within(
    path: impl AsRef<Path>,
    limit: u64,
) -> Result<BTreeMap<String, Tensor>, NpzError> {
    read(path.as_ref(), Some(limit))
}

fn read(path: &Path, limit: Option<u64>) -> Result<BTreeMap<String, Tensor>, NpzError> {
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
    let (mut arrays, mut errors) = (BTreeMap::new(), Vec::new());
    let mut members = archive.entries();
    while let Some(member) = members.next_entry().map_err(damaged)? {
        let path_inside = member.file_path();
        let name = String::from_utf8_lossy(path_inside.as_ref());
        let name = name.strip_suffix(".npy").unwrap_or(&name).to_owned();
        let read = unpacked(&archive, member.wayfinder(), member.compression_method());
        let read = read.map_err(|source| NpyError::Io {
            operation: "unpack",
            path: path.to_owned(),
            source,
        });
        match read.and_then(|bytes| npy::decode(&bytes)) {
            Ok(array) => drop(arrays.insert(name, array)),
            Err(error) => errors.push((name, error)),
        }
    }
    if errors.is_empty() {
        return Ok(arrays);
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    fn fixture(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../tests/fixtures/formats")
            .join(name)
    }

    /// `numpy.savez` and `numpy.savez_compressed` wrote the files.
    #[test]
    fn arrays_of_numpy_are_read() {
        for file in ["stored.npz", "compressed.npz"] {
            let arrays = load(fixture(file)).unwrap();
            let names: Vec<&str> = arrays.keys().map(String::as_str).collect();
            assert_eq!(names, ["count", "encoder/kernel"]);
            assert_eq!(arrays["count"], Tensor::from(7_i64));
            let kernel = Tensor::new(
                [2, 50],
                (0..100)
                    .map(|number| number as f32 / 4.0)
                    .collect::<Vec<_>>(),
            );
            assert_eq!(arrays["encoder/kernel"], kernel);
        }
    }

    #[test]
    fn archives_that_unpack_to_much_need_a_limit() {
        let path = std::env::temp_dir().join(format!("pytree-bomb-{}.npz", std::process::id()));
        let mut bytes = std::fs::read(fixture("compressed.npz")).unwrap();
        let size = load_within(fixture("compressed.npz"), 0).unwrap_err();
        assert!(matches!(size, NpzError::Large { size: 664, .. }), "{size}");
        assert_eq!(
            load_within(fixture("compressed.npz"), 664).unwrap().len(),
            2
        );
        // The length of the first member in the directory of the archive.
        let entry = bytes.windows(4).position(|bytes| bytes == b"PK\x01\x02");
        let length = entry.unwrap() + 24;
        let claims = |bytes: &mut [u8], claimed: u32| {
            bytes[length..length + 4].copy_from_slice(&claimed.to_le_bytes());
            std::fs::write(&path, bytes).unwrap();
        };
        claims(&mut bytes, 3 << 30);
        let large = load(&path).unwrap_err().to_string();
        let fix = "bytes, and the limit is 268435456; if you trust the file, read it with `data::npz::load_within(path, 3221";
        assert!(large.contains(fix), "{large}");
        let template = BTreeMap::from([("count", Tensor::from(0_i64))]);
        let checkpoint = crate::checkpoint::load(&path, &template).unwrap_err();
        assert_eq!(checkpoint.to_string(), large);
        // The bytes that come are no more than those that the archive claims.
        claims(&mut bytes, 5);
        assert!(matches!(load(&path), Err(NpzError::Arrays { .. })));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn damaged_archives_are_errors() {
        let path = std::env::temp_dir().join(format!("pytree-npz-{}.npz", std::process::id()));
        let whole = std::fs::read(fixture("stored.npz")).unwrap();
        for length in (0..whole.len()).step_by(7) {
            std::fs::write(&path, &whole[..length]).unwrap();
            assert!(
                matches!(load(&path), Err(NpzError::Archive { .. })),
                "{length}"
            );
        }
        for position in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[position] ^= 0x55;
            std::fs::write(&path, bytes).unwrap();
            // Dates and other fields without a checksum may change.
            let _ = load(&path);
        }
        let mut bytes = whole.clone();
        let at = whole
            .windows(6)
            .position(|bytes| bytes == b"\x93NUMPY")
            .unwrap();
        bytes[at + 200] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        assert!(
            load(&path)
                .unwrap_err()
                .to_string()
                .contains("cannot read 1 of the arrays")
        );
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(load(&path), Err(NpzError::Io { .. })));
    }
}
