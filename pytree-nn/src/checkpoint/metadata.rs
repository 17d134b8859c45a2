//! The metadata of a file: the version of its format, the kinds and the named axes of its leaves, and a checksum.
//!
//! safetensors files have a field for metadata, so other programs can read a file with this metadata. In the first
//! version of the format, the metadata had only the kinds. `docs/formats.md` describes the keys, the checksum and the
//! compatibility policy.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use safetensors::tensor::SafeTensors;
use xxhash_rust::xxh3::Xxh3;

use crate::checkpoint::CheckpointError;
use crate::checkpoint::bytes::dtype_name;

/// The version of the format that this library writes.
pub(super) const VERSION: u32 = 2;

/// The prefix of the metadata keys of this library. The checksum covers all these keys except its own.
const OURS: &str = "pytree.";
const VERSION_KEY: &str = "pytree.version";
const CHECKSUM_KEY: &str = "pytree.checksum";
/// The metadata key of the kinds. The value of this key has a line for each leaf with a kind: the name, a tab and the
/// kind.
const KINDS_KEY: &str = "pytree.kinds";

/// The metadata key of the named axes. The value of this key has a line for each leaf with named axes: the name, a tab
/// and the axes, separated by spaces. The key is absent if no leaf has named axes, and in files of earlier versions of
/// this library.
const AXES_KEY: &str = "pytree.axes";

/// The metadata of a file. Other programs may have written some of the keys.
pub(super) struct Metadata(BTreeMap<String, String>);

impl Metadata {
    /// Creates the metadata of a new file, without its checksum.
    pub(super) fn new(kinds: String, axes: String) -> Self {
        let mut entries = BTreeMap::from([
            (VERSION_KEY.to_owned(), VERSION.to_string()),
            (KINDS_KEY.to_owned(), kinds),
        ]);
        if !axes.is_empty() {
            entries.insert(AXES_KEY.to_owned(), axes);
        }
        Self(entries)
    }

    /// Reads the metadata of a file, and checks its version and checksum.
    pub(super) fn read(
        path: &Path,
        bytes: &[u8],
        file: &SafeTensors<'_>,
    ) -> Result<Self, CheckpointError> {
        let (_, found) =
            SafeTensors::read_metadata(bytes).map_err(|error| CheckpointError::Format {
                path: path.to_owned(),
                problem: error.to_string(),
            })?;
        // Files of other programs have no metadata.
        let entries = found.metadata().clone().unwrap_or_default();
        let metadata = Self(entries.into_iter().collect());
        metadata.check(path, file)?;
        Ok(metadata)
    }

    /// Returns a map from the name of each leaf to its kind.
    pub(super) fn kinds(&self) -> BTreeMap<&str, &str> {
        self.by_name(KINDS_KEY)
    }

    /// Returns a map from the name of each leaf to its named axes, separated by spaces.
    pub(super) fn axes(&self) -> BTreeMap<&str, &str> {
        self.by_name(AXES_KEY)
    }

    /// Splits each line of an entry, and returns a map from the name of the leaf to the text after the tab.
    fn by_name(&self, key: &str) -> BTreeMap<&str, &str> {
        let lines = self.0.get(key).map_or("", String::as_str);
        lines
            .lines()
            .filter_map(|line| line.split_once('\t'))
            .collect()
    }

    fn check(&self, path: &Path, file: &SafeTensors<'_>) -> Result<(), CheckpointError> {
        let version = self.0.get(VERSION_KEY);
        let is_newer = |version: &String| version.parse().is_ok_and(|number: u32| number > VERSION);
        if let Some(found) = version.filter(|version| is_newer(version)) {
            return Err(CheckpointError::Version {
                path: path.to_owned(),
                newest: VERSION,
                found: found.clone(),
            });
        }
        // Files of the first version and files of other programs have neither a version nor a checksum.
        let checksum = self.0.get(CHECKSUM_KEY);
        if version.is_none() && checksum.is_none() {
            return Ok(());
        }
        let expected = checksum.map_or("none", String::as_str);
        let found = self.checksum(file);
        if expected == found {
            return Ok(());
        }
        Err(CheckpointError::Checksum {
            path: path.to_owned(),
            expected: expected.to_owned(),
            found,
        })
    }

    /// Returns the XXH3-128 hash of all leaves, sorted by name, followed by this library's metadata, sorted by key.
    /// Before each text and each list, its length is hashed: eight bytes, least significant byte first.
    fn checksum(&self, file: &SafeTensors<'_>) -> String {
        let mut hash = Xxh3::new();
        let mut add = |part: &[u8]| {
            hash.update(&(part.len() as u64).to_le_bytes());
            hash.update(part);
        };
        let mut tensors: Vec<_> = file.iter().collect();
        tensors.sort_unstable_by_key(|(name, _)| *name);
        add(&(tensors.len() as u64).to_le_bytes());
        for (name, view) in tensors {
            add(name.as_bytes());
            add(dtype_name(view.dtype()).as_bytes());
            let lengths = view.shape().iter();
            let shape: Vec<u8> = lengths
                .flat_map(|&length| (length as u64).to_le_bytes())
                .collect();
            add(&shape);
            add(view.data());
        }
        for (key, value) in &self.0 {
            if key.starts_with(OURS) && key != CHECKSUM_KEY {
                add(key.as_bytes());
                add(value.as_bytes());
            }
        }
        format!("{:032x}", hash.digest128())
    }

    /// Adds the metadata and the checksum to `bytes`, the content of a safetensors file that has no metadata yet.
    ///
    /// The safetensors crate is not used for this, because it writes the keys in a random order. Two files with the
    /// same leaves would then differ.
    pub(super) fn put_into(mut self, bytes: &mut Vec<u8>) -> Option<()> {
        let file = SafeTensors::deserialize(bytes).ok()?;
        let checksum = self.checksum(&file);
        self.0.insert(CHECKSUM_KEY.to_owned(), checksum);
        let (length, rest) = bytes.split_first_chunk::<8>()?;
        let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
        let leaves = std::str::from_utf8(rest.get(..length)?).ok()?;
        let leaves = leaves.trim_end().strip_prefix('{')?;
        let entries: Vec<String> = self
            .0
            .iter()
            .map(|(key, value)| format!("{}:{}", quoted(key), quoted(value)))
            .collect();
        let comma = if leaves == "}" { "" } else { "," };
        let mut header = format!(
            "{{\"__metadata__\":{{{}}}{comma}{leaves}",
            entries.join(",")
        );
        // The data begin at a multiple of eight bytes.
        while !header.len().is_multiple_of(8) {
            header.push(' ');
        }
        let begin = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat();
        bytes.splice(..8 + length, begin);
        Some(())
    }
}

/// Returns a text as a JSON string.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\u{0}'..='\u{1f}' => {
                // Writing into a `String` cannot fail.
                let _ = write!(quoted, "\\u{:04x}", u32::from(character));
            }
            _ => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}
