//! Checks the prelude: it has the names that the README or at least three of the programs import, and each of its names is used
//! by the README or by several programs, examples and pages.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::{Item, ItemMod, ItemUse, UseTree};

/// The folder of the workspace.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// How many programs import a name that the prelude must have.
const PROGRAMS: usize = 3;

/// How many programs, examples and pages use a name of the prelude that the README does not use.
const USERS: usize = 2;

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(path)).unwrap()
}

/// Adds the names that a `use` declaration brings into scope.
fn add_names(tree: &UseTree, names: &mut BTreeSet<String>) {
    match tree {
        UseTree::Path(path) => add_names(&path.tree, names),
        UseTree::Name(name) => drop(names.insert(name.ident.to_string())),
        UseTree::Rename(rename) => drop(names.insert(rename.rename.to_string())),
        UseTree::Glob(_) => panic!("the prelude names each of its items"),
        UseTree::Group(group) => group.items.iter().for_each(|item| add_names(item, names)),
    }
}

fn prelude() -> BTreeSet<String> {
    let file = syn::parse_file(&read("src/lib.rs")).unwrap();
    let items = file.items.into_iter().find_map(|item| match item {
        Item::Mod(ItemMod { ident, content, .. }) if ident == "prelude" => content,
        _ => None,
    });
    let mut names = BTreeSet::new();
    for item in items.unwrap().1 {
        match item {
            Item::Use(ItemUse { tree, .. }) => add_names(&tree, &mut names),
            _ => panic!("the prelude only has `pub use`"),
        }
    }
    names
}

/// Adds the identifiers of some code, and the words that follow `#` in attributes such as `#[derive(Module)]`.
fn add_identifiers(code: TokenStream, identifiers: &mut BTreeSet<String>) {
    for token in code {
        match token {
            TokenTree::Ident(ident) => drop(identifiers.insert(ident.to_string())),
            TokenTree::Group(group) => add_identifiers(group.stream(), identifiers),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

fn identifiers(code: &str) -> BTreeSet<String> {
    let mut identifiers = BTreeSet::new();
    add_identifiers(code.parse().unwrap(), &mut identifiers);
    identifiers
}

/// Returns the Rust code of the README.
fn readme() -> String {
    code_of_page(&read("README.md"))
}

/// Returns the Rust code of a page.
fn code_of_page(text: &str) -> String {
    let blocks = text.split("```rust").skip(1);
    let code = blocks.filter_map(|block| block.split_once('\n')?.1.split("```").next());
    code.collect()
}

/// Returns the code of each example, and of each page.
fn examples_and_pages() -> Vec<String> {
    let folders = [
        "examples",
        "docs",
        "docs/how-to",
        "docs/reference",
        "docs/explanation",
    ];
    let files = folders.map(|folder| fs::read_dir(Path::new(ROOT).join(folder)).unwrap());
    let files = files.into_iter().flatten().map(|file| file.unwrap().path());
    let code = files.filter_map(|file| match file.extension()?.to_str()? {
        "rs" => Some(fs::read_to_string(file).unwrap()),
        "md" => Some(code_of_page(&fs::read_to_string(file).unwrap())),
        _ => None,
    });
    code.collect()
}

/// Returns the code of each program.
fn programs() -> Vec<String> {
    let folder = Path::new(ROOT).join("tests/programs");
    let files = fs::read_dir(folder).unwrap();
    let files = files.map(|file| file.unwrap().path());
    let is_program = |file: &PathBuf| {
        let name = file.file_name().unwrap().to_string_lossy();
        name.starts_with('p') && name.ends_with(".rs")
    };
    let programs = files.filter(is_program);
    programs
        .map(|file| fs::read_to_string(file).unwrap())
        .collect()
}

#[test]
fn prelude_names_are_in_use() {
    let readme = identifiers(&readme());
    let code = programs().into_iter().chain(examples_and_pages());
    let programs: Vec<BTreeSet<String>> = code.map(|code| identifiers(&code)).collect();
    let uses = |name: &String| {
        let users = programs.iter().filter(|program| program.contains(name));
        users.count()
    };
    let unused: Vec<String> = prelude()
        .into_iter()
        .filter(|name| !readme.contains(name) && uses(name) < USERS)
        .collect();
    assert!(
        unused.is_empty(),
        "neither the README nor {USERS} programs, examples and pages use {unused:?}; remove these names from the prelude"
    );
}

#[test]
fn common_imports_are_in_the_prelude() {
    let mut imports: Vec<BTreeSet<String>> = Vec::new();
    for code in programs() {
        let mut names = BTreeSet::new();
        for item in &syn::parse_file(&code).unwrap().items {
            if let Item::Use(ItemUse {
                tree: UseTree::Path(path),
                ..
            }) = item
                && path.ident == "pytree"
                && !matches!(&*path.tree, UseTree::Path(path) if path.ident == "prelude")
            {
                add_names(&path.tree, &mut names);
            }
        }
        imports.push(names);
    }
    let mut readme_imports = BTreeSet::new();
    for item in readme().split("use pytree::").skip(1) {
        let tree = item.split(';').next().unwrap();
        if !tree.starts_with("prelude") {
            add_names(&syn::parse_str(tree).unwrap(), &mut readme_imports);
        }
    }
    let all: BTreeSet<&String> = imports.iter().flatten().collect();
    let common = all
        .into_iter()
        .filter(|name| imports.iter().filter(|names| names.contains(*name)).count() >= PROGRAMS);
    let missing: BTreeSet<&String> = common.chain(&readme_imports).collect();
    assert!(
        missing.is_empty(),
        "the README or {PROGRAMS} programs import {missing:?}; add these names to the prelude"
    );
}
