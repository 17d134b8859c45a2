//! The index of a checkpoint by shards: a JSON text that says which file has which tensor or part. Hugging Face has the same
//! form.
//!
//! From version 3 on, the checksum covers each byte of the index. An index that lists files of this library has a checksum, or
//! it is damaged.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::files;
use crate::format::file::{MAX_HEADER, StoredFile, io_error};
use crate::format::metadata::{CHECKSUM_KEY, Digest, Metadata, VERSION_KEY, quoted};
use crate::report::error::CheckpointError;
use crate::shards::part::block_checksum;

/// The name of the index in its folder.
const NAME: &str = "model.safetensors.index.json";

/// The end of the names of indices.
const END: &str = ".index.json";

/// The metadata key of the files. The value has a line for each file: its name, its length in bytes and the checksum of
/// its header, separated by tabs.
const FILES_KEY: &str = "pytree.files";

/// The version of the index that this library writes. Version 2 has a checksum of the tensors, their files and the metadata of
/// this library. No index has version 1.
const VERSION: u32 = 3;

/// The number of digits of a checksum.
const DIGITS: usize = 32;

/// The name under which all saves to a folder write their temporary files.
pub(crate) const FAMILY: &str = "model-*.safetensors";

/// The index of a checkpoint by shards.
#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) path: PathBuf,
    /// The entries of the metadata that are texts.
    pub(crate) metadata: Metadata,
    /// The file of each tensor or part.
    pub(crate) weight_map: BTreeMap<String, String>,
}

/// What an index knows of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Described {
    pub(crate) length: u64,
    pub(crate) header: String,
}

/// Returns the path of the index, or `None` if a path is that of a single file.
pub(crate) fn index_path(path: &Path) -> Option<PathBuf> {
    let is_index = || {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.ends_with(END))
    };
    if path.is_dir() {
        return Some(path.join(NAME));
    }
    is_index().then(|| path.to_owned())
}

/// Returns the name of the file of one process. All files of a save have the same number, which no other save has.
pub(crate) fn file_name(save: i64, rank: usize, count: usize) -> String {
    format!(
        "model-{save:016x}-{:05}-of-{count:05}.safetensors",
        rank + 1
    )
}

/// Returns whether a file has a name that [`file_name`] returns.
fn is_own(name: &str) -> bool {
    let name = name.strip_prefix("model-");
    let Some((save, rest)) = name.and_then(|name| name.split_once('-')) else {
        return false;
    };
    let is_save = save.len() == 16 && save.bytes().all(|byte| byte.is_ascii_hexdigit());
    let numbers = rest.strip_suffix(".safetensors");
    let numbers = numbers.and_then(|numbers| numbers.split_once("-of-"));
    let is_number = |text: &str| text.len() >= 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    is_save && numbers.is_some_and(|(rank, count)| is_number(rank) && is_number(count))
}

impl Index {
    /// Returns the index of the files in a folder, before it is written.
    pub(crate) fn of_files(
        directory: &Path,
        names: &[String],
        mut metadata: Metadata,
    ) -> Result<Self, CheckpointError> {
        let mut weight_map = BTreeMap::new();
        let mut lines = String::new();
        for name in names {
            let file = StoredFile::open(&directory.join(name))?;
            let (length, header) = (file.len(), file.header_checksum());
            // Writing into a `String` cannot fail.
            let _ = writeln!(lines, "{name}\t{length}\t{header}");
            for stored in file.tensors().into_keys() {
                if weight_map.contains_key(&stored) {
                    return Err(CheckpointError::SameName { name: stored });
                }
                weight_map.insert(stored, name.clone());
            }
        }
        metadata.set(FILES_KEY, lines);
        metadata.set(VERSION_KEY, VERSION.to_string());
        Ok(Self {
            path: directory.join(NAME),
            metadata,
            weight_map,
        })
    }

    /// Reads an index, and compares its checksum if it has one.
    pub(crate) fn read(path: &Path) -> Result<Self, CheckpointError> {
        let failed = io_error("read", path);
        let refused = |problem: &str| CheckpointError::Index {
            path: path.to_owned(),
            problem: problem.to_owned(),
        };
        let file = files::open(path).map_err(failed)?;
        let mut text = Vec::new();
        file.take(MAX_HEADER + 1)
            .read_to_end(&mut text)
            .map_err(failed)?;
        if text.len() as u64 > MAX_HEADER {
            return Err(refused("it is longer than 100 megabytes"));
        }
        let text = String::from_utf8(text).map_err(|_| refused("it is not a text in UTF-8"))?;
        let value: Value = serde_json::from_str(&text)
            .map_err(|error| refused(&format!("it is not a JSON text: {error}")))?;
        let Some(map) = value.get("weight_map").and_then(Value::as_object) else {
            return Err(refused("it has no object `weight_map`"));
        };
        let mut weight_map = BTreeMap::new();
        for (stored, file) in map {
            let Some(file) = file.as_str().filter(|file| is_plain(file)) else {
                return Err(refused(&format!(
                    "`weight_map` has for {stored} the value {file}, which is not the name of a file in the same folder"
                )));
            };
            weight_map.insert(stored.clone(), file.to_owned());
        }
        let entries = value.get("metadata").and_then(Value::as_object);
        let texts = entries.into_iter().flatten();
        let texts =
            texts.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
        let metadata = Metadata::of(path, texts.collect(), VERSION)?;
        let index = Self {
            path: path.to_owned(),
            metadata,
            weight_map,
        };
        index.check(&text)?;
        Ok(index)
    }

    /// Compares the checksum of the text that the index was read from. The index of another program has none.
    fn check(&self, text: &str) -> Result<(), CheckpointError> {
        let is_ours =
            self.metadata.has_checksum() || self.weight_map.values().any(|file| is_own(file));
        if !is_ours {
            return Ok(());
        }
        if self.metadata.get(VERSION_KEY) == Some("2") {
            let mut digest = Digest::new(self.weight_map.len());
            for (stored, file) in &self.weight_map {
                digest.text(stored);
                digest.text(file);
            }
            return self.metadata.compare(&self.path, digest);
        }
        self.metadata.compare_text(&self.path, checksum_of(text))
    }

    /// Writes the index with its checksum. From then on, the folder is a checkpoint.
    pub(crate) fn write(mut self, total_size: u64) -> Result<(), CheckpointError> {
        // The checksum is that of the text with zeros in its place.
        self.metadata.set(CHECKSUM_KEY, "0".repeat(DIGITS));
        let checksum = checksum_of(&self.text(total_size));
        self.metadata.set(CHECKSUM_KEY, checksum);
        let text = self.text(total_size);
        let written = files::write_in_family(&self.path, text.as_bytes(), FAMILY);
        written.map_err(io_error("write", &self.path))
    }

    fn text(&self, total_size: u64) -> String {
        let mut text = format!("{{\n  \"metadata\": {{\n    \"total_size\": {total_size}");
        for (key, value) in self.metadata.entries() {
            let _ = write!(text, ",\n    {}: {}", quoted(key), quoted(value));
        }
        text.push_str("\n  },\n  \"weight_map\": {");
        for (position, (stored, file)) in self.weight_map.iter().enumerate() {
            let comma = if position == 0 { "" } else { "," };
            let _ = write!(text, "{comma}\n    {}: {}", quoted(stored), quoted(file));
        }
        text.push_str("\n  }\n}\n");
        text
    }

    /// Returns what the index knows of its files. Returns `None` if another program wrote the index.
    pub(crate) fn described(&self) -> Result<Option<BTreeMap<&str, Described>>, CheckpointError> {
        let Some(lines) = self.metadata.get(FILES_KEY) else {
            return Ok(None);
        };
        let line = |line: &'_ str| {
            let (name, rest) = line.split_once('\t')?;
            let (length, header) = rest.split_once('\t')?;
            let described = Described {
                length: length.parse().ok()?,
                header: header.to_owned(),
            };
            Some((name.len(), described))
        };
        let mut described = BTreeMap::new();
        for text in lines.lines() {
            let Some((name, found)) = line(text) else {
                let problem = format!(
                    "`{FILES_KEY}` has the line {text:?}, which is not the name of a file, its length and a checksum"
                );
                let path = self.path.clone();
                return Err(CheckpointError::Index { path, problem });
            };
            described.insert(&text[..name], found);
        }
        Ok(Some(described))
    }

    /// Returns whether a file belongs to the checkpoint, also if it has no tensors.
    fn lists(&self, file: &str) -> bool {
        let lines = self.metadata.get(FILES_KEY).unwrap_or_default().lines();
        let mut described = lines.filter_map(|line| line.split_once('\t'));
        described.any(|(name, _)| name == file)
            || self.weight_map.values().any(|known| known == file)
    }

    pub(crate) fn directory(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }
}

/// Returns the XXH3-128 of the text of an index, with zeros in place of the digits of its checksum.
fn checksum_of(text: &str) -> String {
    let mut text = text.as_bytes().to_vec();
    // Inside of a JSON string, the quotes would be escaped. So the first such text is the key.
    let key = format!("\"{CHECKSUM_KEY}\": \"");
    let at = text
        .windows(key.len())
        .position(|part| part == key.as_bytes());
    if let Some(digits) = at.and_then(|at| text.get_mut(at + key.len()..at + key.len() + DIGITS)) {
        digits.fill(b'0');
    }
    block_checksum(&text)
}

/// Returns whether a text is the name of a file, without folders.
fn is_plain(name: &str) -> bool {
    let is_normal = Path::new(name).file_name().is_some_and(|file| file == name);
    is_normal && !name.contains(['/', '\\', '\0'])
}

/// Removes the files of earlier or unfinished saves that no index needs and no writer has locked, and the temporary files that
/// killed writers left.
pub(crate) fn remove_unused(directory: &Path) {
    files::remove_dead(directory, FAMILY);
    let index = directory.join(NAME);
    let is_used = |name: &str| match Index::read(&index) {
        Ok(index) => index.lists(name),
        // An index that cannot be read may need the file.
        Err(CheckpointError::Io { source, .. }) => source.kind() != io::ErrorKind::NotFound,
        Err(_) => true,
    };
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    let known = Index::read(&index).ok();
    let is_known = |name: &str| known.as_ref().is_some_and(|index| index.lists(name));
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_str().filter(|name| is_own(name));
        if let Some(name) = name.filter(|name| !is_known(name)) {
            // Another save may have written its index meanwhile, so the index is read again.
            files::remove_unless_locked(&entry.path(), || is_used(name));
        }
    }
}

/// Removes a checkpoint by shards. The index is removed first, so that nothing loads a part of it. Files of other programs
/// remain, and so does their folder.
pub(crate) fn remove(directory: &Path) -> io::Result<()> {
    match fs::remove_file(directory.join(NAME)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => clean(directory),
    }
    Ok(())
}

/// Removes what killed saves left in the folder of a checkpoint by shards, and the folder if nothing remains. Files that a
/// writer has locked and files of other programs remain.
pub(crate) fn clean(directory: &Path) {
    remove_unused(directory);
    // A folder that is not empty is not removed.
    let _ = fs::remove_dir(directory);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_names_are_recognised() {
        assert_eq!(
            file_name(255, 0, 4),
            "model-00000000000000ff-00001-of-00004.safetensors"
        );
        assert!(is_own(&file_name(i64::MAX, 99_999, 100_000)));
        for other in [
            "model-00001-of-00004.safetensors",
            "model.safetensors",
            "model-00000000000000ff-1-of-4.safetensors",
        ] {
            assert!(!is_own(other), "{other}");
        }
        assert!(is_plain("a.safetensors"));
        for other in ["", "..", "../a", "/a", "a/b", "a\\b", "a/"] {
            assert!(!is_plain(other), "{other}");
        }
    }
}
