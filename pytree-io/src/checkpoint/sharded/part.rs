//! The parts of tensors in the files of a checkpoint: their names, and the description in the metadata of a file.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::Value;

use crate::checkpoint::metadata::quoted;

/// The metadata key of a file with parts. The value is a JSON object: for each stored part its tensor, the shape of this
/// tensor, and the first position of the part on each axis. Tensors that the file has as a whole are not listed.
pub(super) const PARTS_KEY: &str = "pytree.parts";

/// The place of a part in its tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PartPlace {
    /// The name of the tensor.
    pub(super) tensor: String,
    /// The shape of the tensor.
    pub(super) shape: Vec<usize>,
    /// The first position of the part on each axis.
    pub(super) begin: Vec<usize>,
}

/// Returns whether a part is the whole tensor.
pub(super) fn is_whole(index: &[Range<usize>], shape: &[usize]) -> bool {
    let mut axes = index.iter().zip(shape);
    axes.all(|(range, &length)| *range == (0..length))
}

/// Returns the name of a part, for instance `weight[0:4,8:16]`. The whole tensor has its own name.
pub(super) fn part_name(tensor: &str, index: &[Range<usize>], shape: &[usize]) -> String {
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
pub(super) fn to_json<'p>(parts: impl Iterator<Item = (&'p str, &'p PartPlace)>) -> String {
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
pub(super) fn of_json(text: &str) -> Option<BTreeMap<String, PartPlace>> {
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
