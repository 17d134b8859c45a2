//! Checks the documentation: every public function that panics at its caller's line says when, unclear phrases are absent,
//! the pages, files and dependencies that the documents name exist, and the index of functions has them all.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
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
        } else if line.starts_with("#[panicking_twin(") {
            // It writes a second function, which has the documentation.
            marked += 1;
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

/// Phrases that readers have to read twice, and that have plain alternatives.
const UNCLEAR: [&str; 14] = [
    "tells instead",
    "in vain",
    "is no float",
    "is no prefix",
    "is no class",
    "is no module",
    "is no tree",
    "is no key path",
    "beginnings",
    "such a one",
    "as one likes",
    "asked for",
    "taken apart",
    "comes out",
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

/// The documents of the top folder and of the book, by their paths from the top folder.
fn documents() -> Vec<(String, String)> {
    let root = Path::new(ROOT);
    let tops = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(str::to_owned);
    let pages = fs::read_dir(root.join("docs"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| Path::new(name).extension().is_some_and(|end| end == "md"))
        .map(|name| format!("docs/{name}"));
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

#[test]
fn links_lead_to_pages_and_headings() {
    let (mut count, mut problems) = (0, Vec::new());
    for (path, text) in documents() {
        let folder = Path::new(&path).parent().unwrap();
        for link in links(&text) {
            count += 1;
            let (page, heading) = link.split_once('#').unwrap_or((&link, ""));
            let target = match page {
                "" => path.clone(),
                page => folder.join(page).display().to_string(),
            };
            let found = fs::read_to_string(Path::new(ROOT).join(&target)).ok();
            if target.contains("..") {
                problems.push(format!("{path}: `{link}` leads out of the book"));
            } else if !found.is_some_and(|page| {
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
            // An address of the web, and the program and the checkpoint of a user.
            let of_a_user = ["src/main.rs", "model.safetensors.index.json"];
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

/// What the manifests of the repository depend on, other than its own packages.
fn dependencies() -> Vec<String> {
    let mut files = Vec::new();
    all_files(Path::new(ROOT), &mut files);
    let mut names = Vec::new();
    for file in files.iter().filter(|file| file.ends_with("Cargo.toml")) {
        let manifest = fs::read_to_string(Path::new(ROOT).join(file)).unwrap();
        for section in manifest.split("\n[") {
            let (head, body) = section.split_once('\n').unwrap_or((section, ""));
            if head.ends_with("dependencies]") {
                let named = body.lines().filter(|line| !line.starts_with('#'));
                let named = named.filter_map(|line| line.split(['.', '=', ' ']).next());
                let of_others =
                    named.filter(|name| !name.is_empty() && !name.starts_with("pytree-"));
                names.extend(of_others.map(str::to_owned));
            }
        }
    }
    names.sort();
    names.dedup();
    names
}

#[test]
fn every_dependency_has_a_reason() {
    let document = fs::read_to_string(Path::new(ROOT).join("ARCHITECTURE.md")).unwrap();
    let (_, section) = document
        .split_once("## Dependencies")
        .expect("there is a section");
    let rows = section.lines().filter(|line| line.starts_with("| "));
    let named: Vec<&str> = rows
        .filter_map(|row| row.split('|').nth(1))
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .collect();
    let needed = dependencies();
    assert!(needed.len() > 15, "the manifests are read: {needed:?}");
    let without: Vec<&String> = needed
        .iter()
        .filter(|name| !named.contains(&name.as_str()))
        .collect();
    let gone: Vec<&&str> = named
        .iter()
        .filter(|name| !needed.iter().any(|needed| needed == *name))
        .collect();
    assert!(
        without.is_empty() && gone.is_empty(),
        "without a row: {without:?}; no dependency any more: {gone:?}"
    );
}

/// The index: for each name, the path under which `docs/finding-functions.md` imports it.
fn indexed() -> BTreeSet<String> {
    let page = fs::read_to_string(Path::new(ROOT).join("docs/finding-functions.md")).unwrap();
    let mut module = "";
    let mut found = BTreeSet::new();
    for line in page.lines() {
        if let Some(path) = line.strip_prefix("use ") {
            module = path.strip_suffix("::{").unwrap();
        } else if let Some((name, _)) = line
            .strip_prefix("    ")
            .and_then(|line| line.split_once(','))
        {
            found.insert(format!("{module}::{name}"));
        }
    }
    found
}

/// The names of functions and modules that a `use` item names, without those of types.
fn imported(tree: &syn::UseTree, found: &mut Vec<String>) {
    match tree {
        syn::UseTree::Path(path) => imported(&path.tree, found),
        syn::UseTree::Group(group) => group.items.iter().for_each(|item| imported(item, found)),
        syn::UseTree::Name(name) => {
            let name = name.ident.to_string();
            if name.starts_with(char::is_lowercase) && !name.starts_with("try_") {
                found.push(name);
            }
        }
        syn::UseTree::Rename(_) | syn::UseTree::Glob(_) => {}
    }
}

/// The functions that items define for everybody or export from elsewhere, each after the path of its module.
fn functions_of(items: Vec<syn::Item>, module: &str) -> Vec<String> {
    let is_public = |visibility: &syn::Visibility| matches!(visibility, syn::Visibility::Public(_));
    let mut names = Vec::new();
    let mut below = Vec::new();
    for item in items {
        match item {
            syn::Item::Fn(function) if is_public(&function.vis) => {
                // A fallible function is found by the name of its twin.
                let name = function.sig.ident.to_string();
                let name = name.strip_prefix("try_").unwrap_or(&name);
                names.push(name.to_owned());
            }
            syn::Item::Use(item) if is_public(&item.vis) => imported(&item.tree, &mut names),
            syn::Item::Mod(inner) if is_public(&inner.vis) && inner.ident != "prelude" => {
                let path = format!("{module}::{}", inner.ident);
                let items = inner.content.map_or_else(Vec::new, |(_, items)| items);
                below.extend(functions_of(items, &path));
            }
            _ => {}
        }
    }
    let names = names.iter().map(|name| format!("{module}::{name}"));
    names.chain(below).collect()
}

/// The functions of a file, each after the path of its module.
fn functions(file: &str, module: &str) -> Vec<String> {
    let text = fs::read_to_string(Path::new(ROOT).join(file)).unwrap();
    functions_of(syn::parse_file(&text).unwrap().items, module)
}

#[test]
fn index_has_every_function() {
    let modules = [
        ("pytree", "src/lib.rs"),
        ("pytree::checkpoint", "pytree-nn/src/checkpoint/mod.rs"),
        ("pytree::data", "pytree-nn/src/data/mod.rs"),
        ("pytree::data::csv", "pytree-nn/src/data/csv.rs"),
        ("pytree::data::idx", "pytree-nn/src/data/idx.rs"),
        ("pytree::data::npy", "pytree-nn/src/data/npy/mod.rs"),
        ("pytree::export", "pytree-nn/src/export.rs"),
        ("pytree::training", "pytree-nn/src/training/mod.rs"),
        ("pytree::files", "pytree-nn/src/files.rs"),
        (
            "pytree::linalg",
            "pytree-transform/src/operations/linalg/mod.rs",
        ),
        ("pytree::memory", "pytree-transform/src/base/memory.rs"),
        ("pytree::tree", "pytree-core/src/trees/tree.rs"),
        ("pytree::partition", "pytree-core/src/trees/partition.rs"),
        ("pytree::edit", "pytree-core/src/tools/edit.rs"),
        ("pytree::nodes", "pytree-core/src/tools/nodes.rs"),
        ("pytree::refs", "pytree-core/src/notations/refs.rs"),
    ];
    let indexed = indexed();
    // The blocks of these modules list what is in them.
    let listed = |path: &String| {
        indexed
            .iter()
            .any(|name| name.starts_with(&format!("{path}::")))
    };
    let mut absent = BTreeSet::new();
    let mut count = 0;
    for (module, file) in modules {
        for path in functions(file, module) {
            count += 1;
            if !indexed.contains(&path)
                && !listed(&path)
                && !["pytree::graph", "pytree::raw"].contains(&path.as_str())
            {
                absent.insert(path);
            }
        }
    }
    assert!(count > 150, "only {count} functions are found");
    assert!(
        absent.is_empty(),
        "docs/finding-functions.md lacks {absent:?}"
    );
    let functions = |file| BTreeSet::from_iter(functions(file, ""));
    assert_eq!(
        functions("pytree-core/src/trees/tree.rs"),
        functions("pytree-core/src/trees/graph.rs"),
        "the page says that `graph` has the functions of `tree`"
    );
}

/// A user who gets a list of problems prints them.
#[test]
fn errors_and_differences_are_displayed() {
    let root = Path::new(ROOT);
    let texts: Vec<String> = ["pytree-core", "pytree-transform", "pytree-nn"]
        .iter()
        .flat_map(|member| sources(&root.join(member).join("src")))
        .map(|file| fs::read_to_string(file).unwrap())
        .collect();
    let (mut found, mut silent) = (0, Vec::new());
    for text in &texts {
        let mut is_error = false;
        for line in text.lines().map(str::trim) {
            is_error |= line.starts_with("#[derive(") && line.contains("Error");
            let declared = ["pub struct ", "pub enum "]
                .iter()
                .find_map(|prefix| line.strip_prefix(prefix));
            let Some(declared) = declared else { continue };
            let end = declared.find(|c: char| !c.is_alphanumeric());
            let name = &declared[..end.unwrap_or(declared.len())];
            let by_macro = std::mem::take(&mut is_error);
            let parts = ["Error", "Mismatch", "Difference", "Problem", "Mistake"];
            if parts.iter().any(|part| name.contains(part)) {
                found += 1;
                let ends = [
                    format!("Display for {name} "),
                    format!("Display for {name}<"),
                ];
                let is_displayed = |text: &String| ends.iter().any(|end| text.contains(end));
                if !by_macro && !texts.iter().any(is_displayed) {
                    silent.push(name.to_owned());
                }
            }
        }
    }
    assert!(found >= 10, "{found} types were found");
    assert!(silent.is_empty(), "these have no `Display`: {silent:?}");
}
