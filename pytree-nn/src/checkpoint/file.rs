//! Reads safetensors files and checks their lengths.

use std::fs;
use std::path::Path;

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

/// Returns the length, in bytes, that a file has according to its header, if the header can be read.
fn length_of_header(bytes: &[u8]) -> Option<usize> {
    const OFFSETS: &str = "\"data_offsets\":[";
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    let header = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    // A safetensors header begins with a brace. In a file of another format, the length read above is meaningless.
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
