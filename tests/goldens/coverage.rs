//! How many operations the golden files cover.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::files::read;

const LEAST: usize = 470;

/// The operations of a golden file, each with its configuration: the cases with a name and parameters. None
/// if the file is of something else.
fn operations(file: &str) -> BTreeSet<String> {
    read(file)["cases"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|case| case["params"].is_object())
        .filter_map(|case| Some(format!("{} {}", case["name"].as_str()?, case["params"])))
        .collect()
}

#[test]
fn many_operations_have_goldens() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden");
    let covered: Vec<(String, BTreeSet<String>)> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|file| file.ends_with(".json"))
        .map(|file| (file.clone(), operations(&file)))
        .collect();
    let all: BTreeSet<&String> = covered.iter().flat_map(|(_, names)| names).collect();
    let counts: Vec<String> = covered
        .iter()
        .map(|(file, names)| format!("{file}: {}", names.len()))
        .collect();
    assert!(
        all.len() >= LEAST,
        "{} operations, expected {LEAST}:\n{}",
        all.len(),
        counts.join("\n")
    );
}
