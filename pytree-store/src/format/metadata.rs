//! The metadata of a file: the version of its format, the kinds and the named axes of its leaves, and a checksum.
//!
//! safetensors files have a field for metadata, so other programs can read a file with this metadata. In the first
//! version of the format, the metadata had only the kinds. `docs/reference/formats.md` describes the keys, the checksum and the
//! compatibility policy.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use pytree_core::TreeDef;
use safetensors::tensor::{Dtype, SafeTensors};
use xxhash_rust::xxh3::Xxh3;

use crate::format::bytes::dtype_name;
use crate::report::error::CheckpointError;

/// The version of the files that this library writes. An index of several files has a version of its own.
pub(crate) const VERSION: u32 = 2;

/// The prefix of the metadata keys of this library. The checksum covers all these keys except its own.
pub(crate) const OURS: &str = "pytree.";
pub(crate) const VERSION_KEY: &str = "pytree.version";
pub(crate) const CHECKSUM_KEY: &str = "pytree.checksum";
/// The metadata key of the kinds. The value of this key has a line for each leaf with a kind: the name, a tab and the
/// kind.
pub(crate) const KINDS_KEY: &str = "pytree.kinds";

/// The metadata key of a file whose weights have the layout of another library: whose layout it is, as `PyTorch's`. The key is
/// absent in other files, and in files of earlier versions of this library.
pub(crate) const LAYOUT_KEY: &str = "pytree.layout";

/// The metadata key of the named axes. The value of this key has a line for each leaf with named axes: the name, a tab
/// and the axes, separated by spaces. The key is absent if no leaf has named axes, and in files of earlier versions of
/// this library.
const AXES_KEY: &str = "pytree.axes";

/// The metadata key of the static fields with `#[r#static(saved)]`. The value of this key has a line for each of them: the name, a tab and the
/// value as JSON. The key is absent if there is no such field.
const STATICS_KEY: &str = "pytree.statics";

/// The metadata keys of the step and the metric of a checkpoint in a folder.
const STEP_KEY: &str = "pytree.step";
const METRIC_KEY: &str = "pytree.metric";

/// The metadata of a file. Other programs may have written some of the keys.
#[derive(Clone, Debug)]
pub(crate) struct Metadata(BTreeMap<String, String>);

impl Metadata {
    /// Creates the metadata of a new file, without its checksum.
    pub(crate) fn new(kinds: String, axes: String) -> Self {
        let mut entries = BTreeMap::from([
            (VERSION_KEY.to_owned(), VERSION.to_string()),
            (KINDS_KEY.to_owned(), kinds),
        ]);
        if !axes.is_empty() {
            entries.insert(AXES_KEY.to_owned(), axes);
        }
        Self(entries)
    }

    /// Creates the metadata of a file that was read, and checks that its version is not newer than `newest`.
    pub(crate) fn of(
        path: &Path,
        entries: BTreeMap<String, String>,
        newest: u32,
    ) -> Result<Self, CheckpointError> {
        let version = entries.get(VERSION_KEY);
        let is_newer = |version: &&String| version.parse().is_ok_and(|number: u32| number > newest);
        match version.filter(is_newer) {
            Some(found) => Err(CheckpointError::Version {
                path: path.to_owned(),
                newest,
                found: found.clone(),
            }),
            None => Ok(Self(entries)),
        }
    }

    /// Adds the entries of a user.
    pub(crate) fn extend(&mut self, entries: &BTreeMap<String, String>) {
        let entries = entries.iter();
        self.0
            .extend(entries.map(|(key, value)| (key.clone(), value.clone())));
    }

    /// Adds the values of the fields with `#[r#static(saved)]`.
    pub(crate) fn set_statics(&mut self, treedef: &TreeDef) -> Result<(), CheckpointError> {
        let mut lines = String::new();
        for (name, json) in treedef.saved_statics() {
            let name = name.to_string();
            match json {
                Ok(json) => lines.extend([&name, "\t", &json, "\n"]),
                Err(problem) => return Err(CheckpointError::Static { name, problem }),
            }
        }
        if !lines.is_empty() {
            self.set(STATICS_KEY, lines);
        }
        Ok(())
    }

    /// Returns a map from the name of each saved static field to its value as JSON.
    pub(crate) fn statics(&self) -> BTreeMap<&str, &str> {
        self.by_name(STATICS_KEY)
    }

    /// Adds the step and the metric of a checkpoint in a folder.
    pub(crate) fn set_progress(&mut self, step: usize, metric: Option<f64>) {
        self.0.insert(STEP_KEY.to_owned(), step.to_string());
        if let Some(metric) = metric {
            // The text is the shortest that is read as the same number.
            self.0.insert(METRIC_KEY.to_owned(), format!("{metric:?}"));
        }
    }

    /// Returns the step and the metric of a checkpoint in a folder.
    pub(crate) fn progress(&self) -> Option<(usize, Option<f64>)> {
        let step = self.0.get(STEP_KEY)?.parse().ok()?;
        let metric = self.0.get(METRIC_KEY).and_then(|text| text.parse().ok());
        Some((step, metric))
    }

    /// Returns the entries without those of this library.
    pub(crate) fn into_others(mut self) -> BTreeMap<String, String> {
        self.0.retain(|key, _| !key.starts_with(OURS));
        self.0
    }

    /// Returns the entries in the order of the keys.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&str, &str)> {
        let entries = self.0.iter();
        entries.map(|(key, value)| (key.as_str(), value.as_str()))
    }

    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    pub(crate) fn set(&mut self, key: &str, value: String) {
        self.0.insert(key.to_owned(), value);
    }

    /// Returns a map from the name of each leaf to its kind.
    pub(crate) fn kinds(&self) -> BTreeMap<&str, &str> {
        self.by_name(KINDS_KEY)
    }

    /// Returns a map from the name of each leaf to its named axes, separated by spaces.
    pub(crate) fn axes(&self) -> BTreeMap<&str, &str> {
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

    /// Returns whether the file must have a checksum. Files of the first version and files of other programs have
    /// neither a version nor a checksum.
    pub(crate) fn has_checksum(&self) -> bool {
        self.0.contains_key(VERSION_KEY) || self.0.contains_key(CHECKSUM_KEY)
    }

    /// Compares the checksum of the metadata with the checksum of the tensors in `digest`.
    pub(crate) fn compare(&self, path: &Path, digest: Digest) -> Result<(), CheckpointError> {
        self.compare_text(path, digest.finish(self))
    }

    /// Compares the checksum of the metadata with another.
    pub(crate) fn compare_text(&self, path: &Path, found: String) -> Result<(), CheckpointError> {
        let expected = self.0.get(CHECKSUM_KEY).map_or("none", String::as_str);
        if expected == found {
            return Ok(());
        }
        Err(CheckpointError::Checksum {
            path: path.to_owned(),
            expected: expected.to_owned(),
            found,
        })
    }

    /// Adds the metadata and the checksum to `bytes`, the content of a safetensors file that has no metadata yet.
    ///
    /// The safetensors crate is not used for this, because it writes the keys in a random order. Two files with the
    /// same leaves would then differ.
    pub(crate) fn put_into(mut self, bytes: &mut Vec<u8>) -> Option<()> {
        let file = SafeTensors::deserialize(bytes).ok()?;
        let mut tensors: Vec<_> = file.iter().collect();
        tensors.sort_unstable_by_key(|(name, _)| *name);
        let mut digest = Digest::new(tensors.len());
        for (name, view) in tensors {
            digest.tensor(name, view.dtype(), view.shape(), view.data().len());
            digest.data(view.data());
        }
        let checksum = digest.finish(&self);
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

/// The XXH3-128 hash of the tensors in the order of their names, followed by the metadata of this library in the order of
/// the keys. Before each text and each list, its length is hashed: eight bytes, least significant byte first.
pub(crate) struct Digest(Xxh3);

impl Digest {
    /// Begins with the number of tensors.
    pub(crate) fn new(tensors: usize) -> Self {
        let mut digest = Self(Xxh3::new());
        digest.add(&(tensors as u64).to_le_bytes());
        digest
    }

    fn add(&mut self, part: &[u8]) {
        self.0.update(&(part.len() as u64).to_le_bytes());
        self.0.update(part);
    }

    /// Adds a text.
    pub(crate) fn text(&mut self, text: &str) {
        self.add(text.as_bytes());
    }

    /// Adds the description of the next tensor, which has `length` bytes. They follow by [`data`](Self::data).
    pub(crate) fn tensor(&mut self, name: &str, dtype: Dtype, shape: &[usize], length: usize) {
        self.add(name.as_bytes());
        self.add(dtype_name(dtype).as_bytes());
        let lengths = shape.iter();
        let shape: Vec<u8> = lengths
            .flat_map(|&length| (length as u64).to_le_bytes())
            .collect();
        self.add(&shape);
        self.0.update(&(length as u64).to_le_bytes());
    }

    /// Adds the next bytes of a tensor.
    pub(crate) fn data(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Adds the metadata, and returns the hash in hexadecimal digits.
    pub(crate) fn finish(mut self, metadata: &Metadata) -> String {
        for (key, value) in &metadata.0 {
            if key.starts_with(OURS) && key != CHECKSUM_KEY {
                self.add(key.as_bytes());
                self.add(value.as_bytes());
            }
        }
        format!("{:032x}", self.0.digest128())
    }
}

/// Returns a text as a JSON string.
pub(crate) fn quoted(text: &str) -> String {
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
