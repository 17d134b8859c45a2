//! The parts of tensors in the files of a checkpoint: their names, and the description in the metadata of a file.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::Value;

use crate::format::metadata::quoted;

/// The metadata key of a file with parts. The value is a JSON object: for each stored part its tensor, the shape of this
/// tensor, and the first position of the part on each axis. Tensors that the file has as a whole are not listed.
pub(crate) const PARTS_KEY: &str = "pytree.parts";

/// The metadata key of a file with parts. The value is a JSON object: for each stored tensor the checksums of its blocks,
/// separated by spaces.
pub(crate) const BLOCKS_KEY: &str = "pytree.blocks";

/// The number of bytes of a part that have one checksum. A reader reads whole blocks.
pub(crate) const BLOCK: usize = 1 << 18;

/// Returns the checksum of a block, in hexadecimal digits.
pub(crate) fn block_checksum(bytes: &[u8]) -> String {
    format!("{:032x}", xxhash_rust::xxh3::xxh3_128(bytes))
}

/// The place of a part in its tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartPlace {
    /// The name of the tensor.
    pub(crate) tensor: String,
    /// The shape of the tensor.
    pub(crate) shape: Vec<usize>,
    /// The first position of the part on each axis.
    pub(crate) begin: Vec<usize>,
}

/// Returns whether a part is the whole tensor.
pub(crate) fn is_whole(index: &[Range<usize>], shape: &[usize]) -> bool {
    let mut axes = index.iter().zip(shape);
    axes.all(|(range, &length)| *range == (0..length))
}

/// Returns the name of a part, for instance `weight[0:4,8:16]`. The whole tensor has its own name.
pub(crate) fn part_name(tensor: &str, index: &[Range<usize>], shape: &[usize]) -> String {
    if is_whole(index, shape) {
        return tensor.to_owned();
    }
    let ranges = index.iter();
    let ranges: Vec<String> = ranges
        .map(|range| format!("{}:{}", range.start, range.end))
        .collect();
    format!("{tensor}[{}]", ranges.join(","))
}

/// Returns the description of parts by their names as a JSON object.
pub(crate) fn to_json<'p>(parts: impl Iterator<Item = (&'p str, &'p PartPlace)>) -> String {
    let entries = parts.map(|(name, place)| {
        format!(
            "{}:{{\"tensor\":{},\"shape\":{:?},\"begin\":{:?}}}",
            quoted(name),
            quoted(&place.tensor),
            place.shape,
            place.begin
        )
    });
    format!("{{{}}}", entries.collect::<Vec<_>>().join(","))
}

/// Reads the description of parts. Returns `None` if the text has another form.
pub(crate) fn of_json(text: &str) -> Option<BTreeMap<String, PartPlace>> {
    let Value::Object(parts) = serde_json::from_str(text).ok()? else {
        return None;
    };
    let lengths = |value: Option<&Value>| -> Option<Vec<usize>> {
        let numbers = value?.as_array()?.iter();
        numbers
            .map(|number| usize::try_from(number.as_u64()?).ok())
            .collect()
    };
    let place = |(name, value): (String, Value)| {
        let place = PartPlace {
            tensor: value.get("tensor")?.as_str()?.to_owned(),
            shape: lengths(value.get("shape"))?,
            begin: lengths(value.get("begin"))?,
        };
        Some((name, place))
    };
    parts.into_iter().map(place).collect()
}
