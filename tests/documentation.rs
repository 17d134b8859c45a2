//! Every public function that panics at its caller's line says when.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

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
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
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
