//! Recognises the layout of files that are loaded without [`LoadOptions::names`](crate::checkpoint::LoadOptions::names).
//!
//! PyTorch stores a weight as `[out, in]`, and this library as `[in, out]`. The shape of a square matrix says nothing, so it loads
//! only if something else does: the metadata of this library, a name with brackets, which PyTorch has not, or another matrix.

use pytree_core::{ArrayInfo, TreeDef};

use crate::format::metadata::{KINDS_KEY, LAYOUT_KEY, Metadata, VERSION_KEY};
use crate::loading::matching::described;
use crate::loading::reading::Plan;
use crate::loading::source::OpenCheckpoint;
use crate::names::leaves::places;
use crate::names::weight_names::WeightNames;
use crate::report::error::CheckpointError;

/// Returns what files of PyTorch have and other files have not, or `None` if there is nothing.
pub(crate) fn pytorch_sign(file: &OpenCheckpoint<'_>, metadata: &Metadata) -> Option<String> {
    if metadata.get("format") == Some("pt") {
        return Some("the metadata `format = pt`".to_owned());
    }
    // The number of a layer is a step of its own in PyTorch and in Flax, but Flax has no `weight`. This library can also write
    // such names.
    let is_foreign = metadata.get(VERSION_KEY).is_none();
    // Fields of a model may have such names, too, as those of candle's layers.
    let is_renamed = is_foreign || metadata.get(LAYOUT_KEY).is_some();
    let is_number = |step: &str| step.bytes().all(|byte| byte.is_ascii_digit());
    let is_pytorch = |name: &String| match name.rsplit_once('.') {
        Some((_, "running_mean" | "running_var" | "num_batches_tracked")) => is_renamed,
        Some((layer, "weight")) => is_foreign && layer.split('.').any(is_number),
        _ => false,
    };
    let name = file.tensors().into_keys().find(is_pytorch)?;
    Some(format!("the tensor `{name}`"))
}

/// Returns the error for a matrix that may have the layout of PyTorch.
pub(crate) fn ambiguous(
    file: &OpenCheckpoint<'_>,
    metadata: &Metadata,
    treedef: &TreeDef,
    leaves: &[ArrayInfo],
    plan: &Plan,
) -> Option<CheckpointError> {
    let layout = metadata.get(LAYOUT_KEY);
    let is_own = [VERSION_KEY, KINDS_KEY]
        .iter()
        .any(|key| metadata.get(key).is_some());
    if is_own && layout.is_none() {
        return None;
    }
    let names = WeightNames::pytorch();
    let places = places(
        treedef,
        leaves.iter().map(|leaf| &leaf.shape[..]),
        Some(&names),
    );
    let mut square = None;
    for (stored, readings) in plan {
        for part in readings.iter().flat_map(|reading| &reading.parts) {
            let arrangement = &places[part.leaf].arrangement;
            if arrangement.is_same() {
                continue;
            }
            // The leaf has the shape of this library, so it has its layout.
            if stored.contains('[') || arrangement.file_shape() != part.shape {
                return None;
            }
            square.get_or_insert(stored);
        }
    }
    let name = square?.clone();
    let sign = match (layout, metadata.get("format")) {
        (Some("PyTorch's"), _) => "the file was saved with `WeightNames` in PyTorch's layout",
        (Some(_), _) => "the file was saved with `WeightNames` in another layout",
        (None, Some("pt")) => "the file has the metadata `format = pt`",
        (None, _) => "the file does not say which library wrote it",
    };
    Some(CheckpointError::UnknownLayout {
        path: file.path().to_owned(),
        found: file.tensors().get(&name).map(described).unwrap_or_default(),
        name,
        sign,
    })
}
