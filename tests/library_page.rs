//! Checks that `docs/library.md` lists each layer, function, loss, metric, optimizer, schedule, initializer and distribution, and
//! nothing else.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use syn::{ImplItem, Item, ReturnType, UseTree, Visibility};

/// The folder of the sources of `pytree-nn`.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../pytree-nn/src");

/// The modules whose items the page lists.
const MODULES: [&str; 7] = [
    "functions",
    "initializers",
    "layers",
    "losses",
    "mixed_precision",
    "optimizers",
    "schedules",
];

/// Macros, which no `use` names.
const MACROS: [&str; 2] = ["forward", "sequential"];

fn items(file: &str) -> Vec<Item> {
    let text = fs::read_to_string(Path::new(SOURCES).join(file)).unwrap();
    syn::parse_file(&text).unwrap().items
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// Adds the names of a `use` item, except those of fallible functions, which have a twin.
fn add_names(tree: &UseTree, names: &mut BTreeSet<String>) {
    match tree {
        UseTree::Path(path) => add_names(&path.tree, names),
        UseTree::Group(group) => group.items.iter().for_each(|item| add_names(item, names)),
        UseTree::Name(name) => {
            let name = name.ident.to_string();
            if !name.starts_with("try_") {
                names.insert(name);
            }
        }
        UseTree::Rename(_) | UseTree::Glob(_) => panic!("the crate names each of its items"),
    }
}

/// Adds what `pub use` items export from modules that `is_listed` accepts.
fn add_exports(file: &str, is_listed: impl Fn(&str) -> bool, names: &mut BTreeSet<String>) {
    for item in items(file) {
        if let Item::Use(item) = item
            && is_public(&item.vis)
            && let UseTree::Path(path) = &item.tree
            && is_listed(&path.ident.to_string())
        {
            add_names(&item.tree, names);
        }
    }
}

/// Adds the public methods of a type in the files of a folder, each after the name of the type: all methods, or only those that
/// return `Self`.
fn add_methods(folder: &str, owner: &str, returns: Returns, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(Path::new(SOURCES).join(folder)).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        // The file of a key creates keys. The other files draw numbers.
        if file == "key.rs" {
            continue;
        }
        add_methods_of(&format!("{folder}/{file}"), owner, returns, names);
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Returns {
    Anything,
    OwnType,
}

fn add_methods_of(file: &str, owner: &str, returns: Returns, names: &mut BTreeSet<String>) {
    for item in items(file) {
        let Item::Impl(block) = item else { continue };
        let of_owner =
            matches!(&*block.self_ty, syn::Type::Path(path) if path.path.is_ident(owner));
        if !of_owner || block.trait_.is_some() {
            continue;
        }
        for method in block.items {
            let ImplItem::Fn(method) = method else {
                continue;
            };
            let own = matches!(&method.sig.output, ReturnType::Type(_, result)
                if matches!(&**result, syn::Type::Path(path) if path.path.is_ident("Self")));
            if is_public(&method.vis) && (returns == Returns::Anything || own) {
                let name = method.sig.ident.to_string();
                let name = name.strip_prefix("try_").unwrap_or(&name);
                names.insert(format!("{owner}::{name}"));
            }
        }
    }
}

/// Adds the variants of an enum.
fn add_variants(file: &str, name: &str, names: &mut BTreeSet<String>) {
    for item in items(file) {
        if let Item::Enum(item) = item
            && item.ident == name
        {
            let variants = item.variants.iter();
            names.extend(variants.map(|variant| format!("{name}::{}", variant.ident)));
        }
    }
}

/// Returns the names in the first column of the tables of the page.
fn listed() -> Vec<String> {
    let page = Path::new(SOURCES).join("../../docs/library.md");
    let page = fs::read_to_string(page).unwrap();
    let cells = page
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    cells
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .map(str::to_owned)
        .collect()
}

#[test]
fn library_page_lists_every_item_once() {
    let mut names = BTreeSet::from(MACROS.map(str::to_owned));
    add_exports("lib.rs", |module| MODULES.contains(&module), &mut names);
    add_exports("lib.rs", |module| module == "metrics", &mut names);
    add_exports("metrics/mod.rs", |_| true, &mut names);
    add_variants("initializers.rs", "Initializer", &mut names);
    add_methods_of(
        "initializers.rs",
        "Initializer",
        Returns::OwnType,
        &mut names,
    );
    add_methods("schedules", "Schedule", Returns::OwnType, &mut names);
    add_methods("random", "Key", Returns::Anything, &mut names);
    assert!(names.len() > 250, "only {} items are found", names.len());

    let listed = listed();
    let once: BTreeSet<String> = listed.iter().cloned().collect();
    let absent: Vec<_> = names.difference(&once).collect();
    let unknown: Vec<_> = once.difference(&names).collect();
    assert!(
        absent.is_empty() && unknown.is_empty(),
        "docs/library.md lacks a line for {absent:?}, and has lines for {unknown:?}, which do not exist"
    );
    assert_eq!(listed.len(), once.len(), "an item has two lines");
}
