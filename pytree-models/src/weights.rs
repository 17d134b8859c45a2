//! Finds the weights in the folder of a model.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use pytree_io::checkpoint;

use crate::error::ModelError;

/// Files of weights in other formats, and what to do with them. The first that matches decides.
const OTHERS: [(&str, &str, &str); 5] = [
    (".bin", "a pickle of PyTorch", TORCH),
    (".pth", "a pickle of PyTorch", TORCH),
    (".pt", "a pickle of PyTorch", TORCH),
    (".gguf", "a file of llama.cpp", DOWNLOAD),
    (".h5", "a file of Keras", DOWNLOAD),
];
const TORCH: &str = r#"a pickle can run any program when it is read, so convert it once, in this folder: `python -c 'import sys, torch, safetensors.torch as s; s.save_file({k: v.clone() for f in sys.argv[1:] for k, v in torch.load(f, weights_only=True).items()}, "model.safetensors")' FILES`"#;
const DOWNLOAD: &str =
    "download the safetensors files of the model with `hf download NAME --local-dir FOLDER`";

/// The weights of a folder.
#[derive(Clone, Debug)]
pub(crate) struct Weights {
    /// The file, or the folder if it has an index of several files.
    pub(crate) path: PathBuf,
    /// The length of all files of weights.
    pub(crate) bytes: u64,
    /// The names of the tensors. Empty if a header is damaged, which is an error when the weights are loaded.
    pub(crate) names: BTreeSet<String>,
}

impl Weights {
    /// Finds `model.safetensors.index.json`, `model.safetensors`, or else the only safetensors file.
    pub(crate) fn find(folder: &Path) -> Result<Self, ModelError> {
        let failed = |source| ModelError::Io {
            path: folder.to_owned(),
            source,
        };
        let (mut stored, mut others, mut bytes, mut has_index) = (vec![], vec![], 0_u64, false);
        for entry in std::fs::read_dir(folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            has_index |= name == "model.safetensors.index.json";
            if name.ends_with(".safetensors") {
                // Files of a cache are links, so the length is that of the file that a link leads to.
                let length = std::fs::metadata(entry.path()).map_err(failed)?.len();
                bytes = bytes.saturating_add(length);
                stored.push(name);
            } else if OTHERS.iter().any(|(end, ..)| name.ends_with(end)) {
                others.push(name);
            }
        }
        let has_file = stored.iter().any(|name| name == "model.safetensors");
        let path = match &*stored {
            _ if has_file && has_index => return Err(both(folder)),
            _ if has_index => folder.to_owned(),
            _ if has_file => folder.join("model.safetensors"),
            [only] => folder.join(only),
            _ => return Err(missing(folder, stored, others)),
        };
        let entries = checkpoint::headers(&path).unwrap_or_default();
        let names = entries.into_iter().map(|entry| entry.name).collect();
        Ok(Self { path, bytes, names })
    }
}

fn both(folder: &Path) -> ModelError {
    ModelError::Weights {
        folder: folder.to_owned(),
        found: "both".to_owned(),
        fix: "remove the older of the two, because they may have different weights".to_owned(),
    }
}

fn missing(folder: &Path, mut stored: Vec<String>, mut others: Vec<String>) -> ModelError {
    stored.sort_unstable();
    others.sort_unstable();
    let known = others.first().and_then(|name| {
        let known = OTHERS.iter().find(|(end, ..)| name.ends_with(end));
        known.map(|(_, what, fix)| (what, fix))
    });
    let (found, fix) = match known {
        _ if !stored.is_empty() => {
            let fix = "rename the file that is meant to `model.safetensors`, or download the index of several files";
            (format!("`{}`", stored.join("`, `")), fix)
        }
        Some((what, fix)) => (format!("`{}`, {what}", others.join("`, `")), *fix),
        None => ("no file of weights".to_owned(), DOWNLOAD),
    };
    ModelError::Weights {
        folder: folder.to_owned(),
        found,
        fix: fix.to_owned(),
    }
}
