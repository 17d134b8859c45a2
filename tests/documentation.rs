//! Every public function that panics at its caller's line says when, and nothing is said in unclear phrases.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

/// The folder of the workspace.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// All Rust files in a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

/// The public functions of a file that are marked `#[track_caller]` and say neither when they panic nor, with
/// `# Errors`, that they return an error instead.
fn silent(text: &str) -> (usize, Vec<String>) {
    let (mut marked, mut silent) = (0, Vec::new());
    let (mut tracks, mut says) = (false, false);
    // Tests come last in a file.
    for line in text
        .lines()
        .map(str::trim)
        .take_while(|line| *line != "#[cfg(test)]")
    {
        if line.starts_with("///") {
            says |= line.contains("# Panics") || line.contains("# Errors");
        } else if let Some(function) = line.strip_prefix("pub fn ") {
            if tracks {
                marked += 1;
                if !says {
                    silent.push(function.to_owned());
                }
            }
            (tracks, says) = (false, false);
        } else if line == "#[track_caller]" {
            tracks = true;
        } else if line.is_empty() || line.ends_with('}') || line.ends_with(';') {
            (tracks, says) = (false, false);
        }
    }
    (marked, silent)
}

#[test]
fn functions_that_panic_say_when() {
    let root = Path::new(ROOT);
    let (mut marked, mut problems) = (0, Vec::new());
    for member in ["pytree-core", "pytree-transform", "pytree-nn", "."] {
        for file in sources(&root.join(member).join("src")) {
            let (count, functions) = silent(&fs::read_to_string(&file).unwrap());
            marked += count;
            let place = file.display();
            problems.extend(
                functions
                    .iter()
                    .map(|function| format!("{place}: {function}")),
            );
        }
    }
    assert!(marked > 400, "only {marked} functions were found");
    assert!(
        problems.is_empty(),
        "these do not say when they panic:\n{}",
        problems.join("\n")
    );
}

/// Phrases that no reader understands at once, and for which there are plain words.
const UNCLEAR: [&str; 5] = [
    "tells instead",
    "in vain",
    "is no float",
    "is no prefix",
    "is no class",
];

#[test]
fn unclear_phrases_are_gone() {
    let root = Path::new(ROOT);
    let mut files = Vec::new();
    for folder in [
        "pytree-core/src",
        "pytree-derive/src",
        "pytree-transform/src",
        "pytree-nn/src",
        "src",
        "examples",
    ] {
        files.extend(sources(&root.join(folder)));
    }
    let documents = fs::read_dir(root.join("docs")).unwrap();
    files.extend(documents.map(|entry| entry.unwrap().path()));
    files.extend(["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|name| root.join(name)));
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.is_file()) {
        // Some files are pictures.
        let text = String::from_utf8_lossy(&fs::read(file).unwrap()).into_owned();
        for (number, line) in text.lines().enumerate() {
            for phrase in UNCLEAR.iter().filter(|phrase| line.contains(**phrase)) {
                found.push(format!("{}:{}: {phrase}", file.display(), number + 1));
            }
        }
    }
    assert!(
        found.is_empty(),
        "say it in plain words:\n{}",
        found.join("\n")
    );
}
