//! Files: reading, checking their length, and writing that is complete or not done at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use safetensors::tensor::{SafeTensorError, SafeTensors};

use crate::checkpoint::CheckpointError;

pub(super) fn read(path: &Path) -> Result<Vec<u8>, CheckpointError> {
    fs::read(path).map_err(|source| CheckpointError::Io {
        operation: "read",
        path: path.to_owned(),
        source,
    })
}

pub(super) fn parse<'a>(path: &Path, bytes: &'a [u8]) -> Result<SafeTensors<'a>, CheckpointError> {
    SafeTensors::deserialize(bytes).map_err(|error| match (&error, length_of_header(bytes)) {
        (
            SafeTensorError::MetadataIncompleteBuffer | SafeTensorError::InvalidHeaderLength,
            Some(expected),
        ) if expected != bytes.len() => CheckpointError::Length {
            path: path.to_owned(),
            expected,
            found: bytes.len(),
        },
        _ => CheckpointError::Format {
            path: path.to_owned(),
            problem: error.to_string(),
        },
    })
}

/// The length of the file that its beginning asks for, as far as that can be read.
fn length_of_header(bytes: &[u8]) -> Option<usize> {
    const OFFSETS: &str = "\"data_offsets\":[";
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    let header = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    // What is no safetensors file has nearly always an absurd length here.
    if rest.first() != Some(&b'{') {
        return None;
    }
    let Some(text) = rest.get(..header) else {
        return header.checked_add(8);
    };
    let ends = std::str::from_utf8(text)
        .ok()?
        .split(OFFSETS)
        .skip(1)
        .filter_map(|after| {
            let (_, after) = after.split_once(',')?;
            after.split_once(']')?.0.trim().parse::<usize>().ok()
        });
    ends.max().unwrap_or(0).checked_add(header)?.checked_add(8)
}

pub(super) fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = path
        .file_name()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path names no file"))?;
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let unique = format!(
        ".{}.{}.{number}.tmp",
        name.to_string_lossy(),
        std::process::id()
    );
    let temporary = directory.join(unique);
    let written = write_flushed(&temporary, bytes).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
        return written;
    }
    // The new name must reach the disk too; where a directory can't be flushed the rename still is atomic.
    if let Ok(directory) = File::open(directory) {
        let _ = directory.sync_all();
    }
    Ok(())
}

fn write_flushed(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
