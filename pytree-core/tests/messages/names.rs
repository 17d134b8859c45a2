//! Every function that a message names exists.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

fn is_name(text: &str) -> bool {
    let mut characters = text.chars();
    characters
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && characters.all(|character| character.is_ascii_alphanumeric() || character == '_')
}

/// Returns the path of a function in backticks: of `graph::flatten`, `Filter::path("a")` and `at(…)`, but not of a type.
fn function(quoted: &str) -> Option<Vec<&str>> {
    let (path, is_called) = match quoted.split_once('(') {
        Some((path, _)) => (path, true),
        None => (quoted, false),
    };
    let path: Vec<&str> = path.split("::").collect();
    let name = path.last()?;
    let is_function = *name != "fn"
        && path.iter().all(|part| is_name(part))
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && (is_called || path.len() > 1);
    is_function.then_some(path)
}

#[test]
fn functions_named_in_messages_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let crates = ["pytree-core", "pytree-transform", "pytree-nn"];
    let mut files = Vec::new();
    for name in crates {
        let folder = root.join(name).join("src");
        if folder.is_dir() {
            sources(&folder, &mut files);
        }
    }
    let mut defined: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut named: Vec<(String, Vec<String>)> = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let stem = file.file_stem().unwrap();
        let module = match file.parent().and_then(Path::file_name) {
            Some(folder) if stem == "mod" => folder,
            _ => stem,
        };
        let module = module.to_str().unwrap().to_owned();
        let mut owner = module.clone();
        // A list of exported names may have several lines.
        for exported in text.split("pub use ").skip(1) {
            let exported = exported.split(';').next().unwrap();
            for name in exported.split(|c: char| !(c.is_alphanumeric() || c == '_')) {
                let owners = defined.entry(name.to_owned()).or_default();
                owners.insert(module.clone());
            }
        }
        for line in text.lines() {
            let code = line.trim_start();
            if let Some(block) = line
                .strip_prefix("impl")
                .or(line.strip_prefix("pub trait "))
            {
                let block = block.split_once(" for ").map_or(block, |(_, of)| of);
                let after = match block.strip_prefix('<') {
                    Some(_) => block.split_once("> ").map_or("", |(_, after)| after),
                    None => block,
                };
                let name = after
                    .trim_start()
                    .split(|c: char| !(c.is_alphanumeric() || c == '_'));
                owner = name.into_iter().next().unwrap_or_default().to_owned();
            } else if line == "}" {
                owner.clone_from(&module);
            }
            let mut add = |name: &str| {
                for owner in [&owner, &module] {
                    defined
                        .entry(name.to_owned())
                        .or_default()
                        .insert(owner.clone());
                }
            };
            let words = |text: &str| -> Vec<String> {
                let words = text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
                words.map(str::to_owned).collect()
            };
            for before in ["fn ", "mod ", "panicking_twin(", "macro_rules! "] {
                let after = code.split(before).skip(1);
                after.for_each(|after| add(&words(after)[0]));
            }
            if code.starts_with("//") || !code.contains('"') {
                continue;
            }
            for quoted in code.split('`').skip(1).step_by(2) {
                if let Some(path) = function(quoted) {
                    let place = format!("{}: `{quoted}`", file.display());
                    named.push((place, path.into_iter().map(str::to_owned).collect()));
                }
            }
        }
    }
    assert!(named.len() > 20, "{}", named.len());
    let is_defined = |path: &[String]| {
        // The standard library is not read here.
        if path[0] == "std" {
            return true;
        }
        let (name, above) = path.split_last().unwrap();
        let owners = defined.get(name);
        owners.is_some_and(|owners| {
            let above = above.last().filter(|above| !above.starts_with("pytree"));
            above.is_none_or(|above| owners.contains(above))
        })
    };
    let missing: Vec<String> = named
        .into_iter()
        .filter(|(_, path)| !is_defined(path))
        .map(|(place, _)| place)
        .collect();
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}
