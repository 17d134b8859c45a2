//! Reads NumPy's archives of arrays, `.npz`.

use std::collections::BTreeMap;
use std::path::Path;

use pytree_transform::Tensor;

use crate::data::npy;

pub use pytree_store::npz::NpzError;

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
    let mut arrays = BTreeMap::new();
    pytree_store::npz::read(path, limit, &mut |name, array| {
        arrays.insert(name.to_owned(), npy::read(array)?);
        Ok(())
    })?;
    Ok(arrays)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::path::PathBuf;

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
