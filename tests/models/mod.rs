//! Published models: with their weights, and compared with transformers and torchvision.

mod errors;
mod generation;
mod gpt2;
mod llama;
mod minilm;
mod resnet;
mod settings;
mod speech;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use pytree::checkpoint::{SaveOptions, WeightNames};
use pytree::prelude::*;
use serde_json::Value;

use crate::goldens::files::lengths;

/// The folder of a model, which is removed at the end of the test.
struct Folder(PathBuf);

impl Folder {
    /// Creates a folder with a configuration.
    fn new(name: &str, config: &Value) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let unique = format!("pytree-models-{name}-{}-{count}", std::process::id());
        let folder = Self(std::env::temp_dir().join(unique));
        std::fs::create_dir_all(&folder.0).unwrap();
        folder.write("config.json", &config.to_string());
        folder
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).unwrap();
    }

    /// Writes tensors under their names.
    fn save(&self, tensors: &BTreeMap<String, Tensor>) {
        let options = SaveOptions::new().names(WeightNames::dotted());
        checkpoint::save_with(self.0.join("model.safetensors"), tensors, &options).unwrap();
    }

    /// Writes zeros that need no space on the disk.
    fn save_zeros(&self, shapes: &Value) {
        let (mut header, mut end) = (serde_json::Map::new(), 0);
        for (name, shape) in shapes.as_object().unwrap() {
            let begin = end;
            end += 4 * lengths(shape).iter().product::<usize>();
            let entry =
                serde_json::json!({"dtype": "F32", "shape": shape, "data_offsets": [begin, end]});
            header.insert(name.clone(), entry);
        }
        let header = serde_json::to_vec(&header).unwrap();
        let begin = [&(header.len() as u64).to_le_bytes()[..], &header].concat();
        let path = self.0.join("model.safetensors");
        std::fs::write(&path, &begin).unwrap();
        let opened = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        opened.set_len((begin.len() + end) as u64).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns the path in an environment variable, else the one of a folder of `target` if it is there. If there is none, prints that
/// the test is skipped.
fn fetched(variable: &str, path: &str, tool: &str) -> Option<PathBuf> {
    if let Some(path) = std::env::var_os(variable) {
        return Some(path.into());
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../target/models")
        .join(path);
    if path.exists() {
        return Some(path);
    }
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    // The test harness captures `eprintln`, but not this.
    use std::io::Write as _;
    let _ = writeln!(
        std::io::stderr(),
        "skipped: {test}: run `{tool}`, or set {variable}"
    );
    None
}

/// Asserts that two lists of numbers differ by at most `tolerance` of max(1, |expected|).
fn assert_near(what: &str, found: &[f32], expected: &Value, tolerance: f64) {
    let expected = expected.as_array().unwrap();
    assert_eq!(found.len(), expected.len(), "{what}");
    for (found, expected) in found.iter().zip(expected) {
        let expected = expected.as_f64().unwrap();
        let off = (f64::from(*found) - expected).abs() / expected.abs().max(1.0);
        assert!(
            off <= tolerance,
            "{what}: found {found}, expected {expected}"
        );
    }
}
