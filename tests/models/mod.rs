//! Published models: with their weights, and compared with transformers and torchvision.

mod errors;
mod minilm;
mod speech;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pytree::checkpoint::{SaveOptions, WeightNames};
use pytree::prelude::*;
use serde_json::Value;

/// The folder of a model, which is removed at the end of the test.
struct Folder(PathBuf);

impl Folder {
    /// Creates a folder with a configuration.
    fn new(name: &str, config: &Value) -> Self {
        let unique = format!("pytree-models-{name}-{}", std::process::id());
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
