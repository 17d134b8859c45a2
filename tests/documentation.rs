//! Checks the documents: their links lead somewhere, the book lists every page, and the files that they name exist.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

/// The folder of the workspace.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The documents of the top folder and of the book, by their paths from the top folder.
fn documents() -> Vec<(String, String)> {
    let root = Path::new(ROOT);
    let tops = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(str::to_owned);
    let mut pages = Vec::new();
    all_files(&root.join("docs"), &mut pages);
    pages.retain(|path| Path::new(path).extension().is_some_and(|end| end == "md"));
    tops.into_iter()
        .chain(pages)
        .map(|path| {
            let text = fs::read_to_string(root.join(&path)).unwrap();
            (path, text)
        })
        .collect()
}

/// A document without its blocks of code and without what it has in backticks.
fn prose(document: &str) -> String {
    let blocks = document.split("```").step_by(2);
    blocks
        .flat_map(|text| text.split('`').step_by(2))
        .collect::<Vec<_>>()
        .join("")
}

/// Where the links of a document lead, other than to the web.
fn links(document: &str) -> Vec<String> {
    prose(document)
        .split("](")
        .skip(1)
        .filter_map(|after| after.split(')').next())
        .filter(|target| !target.starts_with("https://"))
        .map(str::to_owned)
        .collect()
}

/// The names by which links lead to the headings of a document.
fn anchors(document: &str) -> Vec<String> {
    document
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| {
            line.trim_start_matches(['#', ' '])
                .to_lowercase()
                .replace(' ', "-")
                .replace(
                    |letter: char| !letter.is_alphanumeric() && !"-_".contains(letter),
                    "",
                )
        })
        .collect()
}

/// A path whose parts `..` are resolved, or `None` if it leads out of the top folder.
fn without_dots(path: &Path) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.iter().filter_map(|part| part.to_str()) {
        match part {
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[test]
fn links_lead_to_pages_and_headings() {
    let (mut count, mut problems) = (0, Vec::new());
    for (path, text) in documents() {
        let folder = Path::new(&path).parent().unwrap();
        for link in links(&text) {
            count += 1;
            let (page, heading) = link.split_once('#').unwrap_or((&link, ""));
            let target = match page {
                "" => Some(path.clone()),
                page => without_dots(&folder.join(page)),
            };
            // A page of the book links to other pages of the book only.
            let Some(target) =
                target.filter(|target| !path.starts_with("docs/") || target.starts_with("docs/"))
            else {
                problems.push(format!("{path}: `{link}` leads out of the book"));
                continue;
            };
            let found = fs::read_to_string(Path::new(ROOT).join(&target)).ok();
            if !found.is_some_and(|page| {
                heading.is_empty() || anchors(&page).contains(&heading.to_owned())
            }) {
                problems.push(format!("{path}: `{link}` leads nowhere"));
            }
        }
    }
    assert!(count > 30, "only {count} links were found");
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn book_has_every_page_once() {
    let documents = documents();
    let summary = documents.iter().find(|(path, _)| path == "docs/SUMMARY.md");
    let mut listed = links(&summary.expect("the book has a summary").1);
    let mut pages: Vec<String> = documents
        .iter()
        .filter_map(|(path, _)| path.strip_prefix("docs/"))
        .filter(|page| *page != "SUMMARY.md")
        .map(str::to_owned)
        .collect();
    listed.sort();
    pages.sort();
    assert_eq!(listed, pages);
}

#[test]
fn programs_of_pages_are_tested() {
    let sources = ["src/lib.rs", "pytree-store/src/lib.rs"]
        .map(|file| fs::read_to_string(Path::new(ROOT).join(file)).unwrap())
        .concat();
    let untested: Vec<String> = documents()
        .into_iter()
        .filter(|(path, text)| path.starts_with("docs/") && text.contains("```rust\n"))
        .map(|(path, _)| path)
        .filter(|path| !sources.contains(&format!("../{path}\"")))
        .collect();
    assert_eq!(untested, [""; 0], "pages that no `include_str!` names");
}

/// All files of a folder but those that a build or git makes, by their paths from the top folder.
fn all_files(folder: &Path, files: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy();
        if !path.is_dir() {
            let inside = path.strip_prefix(ROOT).unwrap();
            files.push(inside.to_string_lossy().replace('\\', "/"));
        } else if name != "target" && name != ".git" {
            all_files(&path, files);
        }
    }
}

#[test]
fn files_named_in_documents_exist() {
    let mut files = Vec::new();
    all_files(Path::new(ROOT), &mut files);
    // A path may leave out its first folders, as long as it leads to one file.
    let is_one = |name: &str| {
        let inside = format!("/{name}");
        let found = files.iter().filter(|file| file.ends_with(&inside)).count();
        let is_of_any_folder = ["main.rs", "lib.rs", "mod.rs", "README.md", "Cargo.toml"];
        let is_general = is_of_any_folder.contains(&name);
        files.iter().any(|file| file == name) || found == 1 || found > 1 && is_general
    };
    let (mut count, mut problems) = (0, Vec::new());
    for (path, text) in documents() {
        let is_of_a_path = |letter: char| letter.is_alphanumeric() || "_-./".contains(letter);
        for word in text.split(|letter| !is_of_a_path(letter)) {
            let name = word.trim_start_matches("../").trim_end_matches('.');
            let is_file = Path::new(name).extension().is_some_and(|end| {
                ["rs", "md", "json", "py", "toml"]
                    .iter()
                    .any(|known| end == *known)
            });
            // An address of the web, and the program and the model of a user.
            let of_a_user = [
                "src/main.rs",
                "model.safetensors.index.json",
                "modules.json",
                "config.json",
                "tokenizer.json",
            ];
            if !is_file || name.starts_with("//") || of_a_user.contains(&name) {
                continue;
            }
            count += 1;
            if !is_one(name) {
                problems.push(format!("{path}: {name}"));
            }
        }
    }
    assert!(count > 100, "only {count} files are named");
    assert!(
        problems.is_empty(),
        "no file, or more than one:\n{}",
        problems.join("\n")
    );
}

#[test]
fn tests_named_in_documents_exist() {
    let (mut count, mut problems) = (0, Vec::new());
    for (path, text) in documents() {
        for named in text.split('`').filter(|code| code.contains(".rs::")) {
            let (file, name) = named.split_once("::").unwrap();
            let source = fs::read_to_string(Path::new(ROOT).join(file)).unwrap_or_default();
            count += 1;
            if !source.contains(&format!("fn {name}(")) {
                problems.push(format!("{path}: {named}"));
            }
        }
    }
    assert!(count > 30, "only {count} tests are named");
    assert!(
        problems.is_empty(),
        "no such test:\n{}",
        problems.join("\n")
    );
}
