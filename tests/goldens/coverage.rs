//! How many operations the golden files cover.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::goldens::files::read;

const LEAST: usize = 470;

/// Returns the version of a package that a file of requirements pins.
fn pinned(requirements: &str, package: &str) -> Option<String> {
    let lines = requirements.lines();
    let mut versions = lines.filter_map(|line| line.strip_prefix(package)?.strip_prefix("=="));
    versions.next().map(str::to_owned)
}

#[test]
fn goldens_have_the_pinned_versions() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden");
    let requirements = [
        "requirements.txt",
        "requirements-0.12.txt",
        "requirements-torch.txt",
        "requirements-torchvision.txt",
        "requirements-models.txt",
        "requirements-settings.txt",
    ]
    .map(|name| fs::read_to_string(folder.join(name)).unwrap());
    for entry in fs::read_dir(&folder).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        if !file.ends_with(".json") {
            continue;
        }
        let golden = read(&file);
        let versions = golden["versions"].as_object().unwrap();
        let all_pinned = requirements.iter().any(|requirements| {
            let mut versions = versions.iter();
            versions.all(|(package, version)| {
                version.as_str() == pinned(requirements, package).as_deref()
            })
        });
        assert!(
            all_pinned,
            "{file} was made with other versions: {versions:?}"
        );
    }
}

/// The operations of a golden file, each with its configuration: the cases with a name and parameters. Empty if the
/// file has no such cases.
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
