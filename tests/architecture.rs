//! The modules of a crate are in layers: each imports only from its own layer and from those below. ARCHITECTURE.md lists them.

#![allow(
    clippy::unwrap_used,
    reason = "a test says what it checks in its name, and fails by panicking"
)]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Attribute, Item};

/// The folder of the workspace.
pub(crate) const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The name of a crate and its layers from the highest to the lowest, each with its modules.
pub(crate) type Crate = (String, Vec<Vec<String>>);

/// The list in ARCHITECTURE.md. A line that begins with a name begins a crate, and a line with two spaces before it is a layer.
pub(crate) fn crates() -> Vec<Crate> {
    let text = std::fs::read_to_string(Path::new(ROOT).join("ARCHITECTURE.md")).unwrap();
    let (_, section) = text.split_once("## Crates and layers").unwrap();
    let (_, list) = section.split_once("```text").unwrap();
    let (list, _) = list.split_once("```").unwrap();
    let mut crates: Vec<Crate> = Vec::new();
    for line in list.lines() {
        let is_layer = line.starts_with("  ") && !line.starts_with("   ");
        if line.starts_with("pytree-") {
            let name = line.split_whitespace().next().unwrap();
            crates.push((name.to_owned(), Vec::new()));
        } else if is_layer {
            let names = line.trim_start().split("  ").next().unwrap();
            let layer = names.split(", ").map(str::to_owned).collect();
            crates.last_mut().unwrap().1.push(layer);
        }
    }
    assert!(crates.len() > 10, "{crates:?}");
    // The library `pytree` is the folder of the workspace, and has no modules.
    crates.retain(|(name, _)| Path::new(ROOT).join(name).join("src").exists());
    crates
}

/// Checks the paths of one file.
struct File<'a> {
    /// The name of the crate in paths.
    crate_name: String,
    layers: &'a [Vec<String>],
    path: &'a Path,
    /// The module of the file, from the root of the crate.
    module: Vec<String>,
    mistakes: &'a mut Vec<String>,
}

impl File<'_> {
    fn check_items(&mut self, items: &[Item]) {
        for item in items {
            match item {
                Item::Mod(module) if is_test(&module.attrs) => {}
                Item::Mod(module) => {
                    if module.attrs.iter().any(|a| a.path().is_ident("path")) {
                        self.mistake(module.ident.span(), "a module with `#[path]`");
                    }
                    if let Some((_, items)) = &module.content {
                        self.module.push(module.ident.to_string());
                        self.check_items(items);
                        self.module.pop();
                    }
                }
                _ => self.check_tokens(item.to_token_stream()),
            }
        }
    }

    /// Checks all paths that begin with `crate` or `super`, in macros, too.
    fn check_tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            match token {
                TokenTree::Group(group) if !is_visibility(group) => {
                    self.check_tokens(group.stream());
                }
                // `$crate` is a path of the crate that uses the macro.
                TokenTree::Punct(dollar) if dollar.as_char() == '$' => at += 1,
                TokenTree::Ident(name) if name == "crate" || name == "super" => {
                    let begins = !matches!(at.checked_sub(1).map(|before| &tokens[before]),
                        Some(TokenTree::Punct(colon)) if colon.as_char() == ':');
                    if begins && is_path(&tokens[at..]) {
                        self.check_path(self.module.clone(), &tokens[at..]);
                    }
                }
                TokenTree::Ident(name) if *name == self.crate_name => {
                    self.mistake(name.span(), "a path through the name of the crate itself");
                }
                _ => {}
            }
            at += 1;
        }
    }

    /// Checks a path that goes on with these tokens below a module.
    fn check_path(&mut self, mut base: Vec<String>, tokens: &[TokenTree]) {
        match tokens {
            [TokenTree::Ident(name), rest @ ..] if name == "crate" => {
                self.check_path(Vec::new(), after_colons(rest));
            }
            [TokenTree::Ident(name), rest @ ..] if name == "super" => {
                base.pop();
                self.check_path(base, after_colons(rest));
            }
            [TokenTree::Group(group), ..] if group.delimiter() == Delimiter::Brace => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                let comma =
                    |token: &TokenTree| matches!(token, TokenTree::Punct(p) if p.as_char() == ',');
                for path in inner.split(comma) {
                    self.check_path(base.clone(), path);
                }
            }
            [TokenTree::Ident(name), rest @ ..] => {
                let is_macro =
                    matches!(rest.first(), Some(TokenTree::Punct(p)) if p.as_char() == '!');
                let layer = base.first().cloned().unwrap_or_else(|| name.to_string());
                if !is_macro {
                    self.check_layer(name.span(), &layer);
                }
            }
            _ => {}
        }
    }

    fn check_layer(&mut self, place: proc_macro2::Span, named: &str) {
        let has = |layer: &Vec<String>, name: &str| layer.iter().any(|known| known == name);
        let rank = |name: &str| self.layers.iter().position(|layer| has(layer, name));
        let own = self.module.first().and_then(|own| rank(own));
        match (own, rank(named)) {
            (Some(own), Some(named)) if named >= own => {}
            (Some(_), Some(_)) => {
                let own = &self.module[0];
                let mistake = format!("`{own}` imports from `{named}`, which is above it");
                self.mistake(place, &mistake);
            }
            (Some(_), None) => {
                let mistake = format!(
                    "`crate::{named}` is in no layer; name the module that defines the item"
                );
                self.mistake(place, &mistake);
            }
            (None, _) => self.mistake(place, "the file is in no layer"),
        }
    }

    fn mistake(&mut self, place: proc_macro2::Span, mistake: &str) {
        let line = place.start().line;
        let path = self.path.display();
        self.mistakes.push(format!("{path}:{line}: {mistake}"));
    }
}

/// Collects the paths that go on with these tokens below a module, from the root of the crate.
pub(crate) fn collect_paths(
    mut base: Vec<String>,
    tokens: &[TokenTree],
    paths: &mut Vec<Vec<String>>,
) {
    match tokens {
        [TokenTree::Ident(name), rest @ ..] if name == "crate" => {
            collect_paths(Vec::new(), after_colons(rest), paths);
        }
        [TokenTree::Ident(name), rest @ ..] if name == "super" => {
            base.pop();
            collect_paths(base, after_colons(rest), paths);
        }
        [TokenTree::Group(group), ..] if group.delimiter() == Delimiter::Brace => {
            let inner: Vec<TokenTree> = group.stream().into_iter().collect();
            let comma =
                |token: &TokenTree| matches!(token, TokenTree::Punct(p) if p.as_char() == ',');
            for path in inner.split(comma) {
                collect_paths(base.clone(), path, paths);
            }
        }
        [TokenTree::Ident(name), rest @ ..] => {
            base.push(name.to_string());
            if is_path(tokens) {
                collect_paths(base, after_colons(rest), paths);
            } else {
                paths.push(base);
            }
        }
        [TokenTree::Punct(star), ..] if star.as_char() == '*' => {
            base.push("*".to_owned());
            paths.push(base);
        }
        _ => {}
    }
}

/// Returns whether a group is the `(in path)` of a visibility, which imports nothing.
pub(crate) fn is_visibility(group: &Group) -> bool {
    matches!(group.stream().into_iter().next(), Some(TokenTree::Ident(name)) if name == "in")
}

pub(crate) fn is_path(tokens: &[TokenTree]) -> bool {
    matches!(tokens, [_, TokenTree::Punct(a), TokenTree::Punct(b), ..] if a.as_char() == ':' && b.as_char() == ':')
}

pub(crate) fn after_colons(tokens: &[TokenTree]) -> &[TokenTree] {
    tokens.get(2..).unwrap_or_default()
}

pub(crate) fn is_test(attributes: &[Attribute]) -> bool {
    let is_cfg_test = |attribute: &Attribute| {
        attribute.path().is_ident("cfg") && attribute.to_token_stream().to_string().contains("test")
    };
    attributes.iter().any(is_cfg_test)
}

/// The files below a folder but for those of tests, which a `#[cfg(test)] mod` names.
pub(crate) fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    entries.sort();
    for path in entries {
        let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
        if stem == "tests" || stem.ends_with("_tests") {
            continue;
        }
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

/// The module that a file holds: `trees/dynamic/builder.rs` is `trees::dynamic::builder`.
pub(crate) fn module_of(file: &Path) -> Vec<String> {
    let mut module: Vec<String> = file
        .with_extension("")
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .collect();
    if module.last().is_some_and(|last| last == "mod") {
        module.pop();
    }
    module
}

/// Checks the files of a crate.
fn check(name: &str, layers: &[Vec<String>], mistakes: &mut Vec<String>) {
    let source = Path::new(ROOT).join(name).join("src");
    for path in sources(&source) {
        let text = std::fs::read_to_string(&path).unwrap();
        let parsed = syn::parse_file(&text).unwrap();
        let inside = path.strip_prefix(&source).unwrap();
        if inside == Path::new("lib.rs") {
            continue;
        }
        let shown = Path::new(name).join("src").join(inside);
        let mut file = File {
            crate_name: name.replace('-', "_"),
            layers,
            path: &shown,
            module: module_of(inside),
            mistakes: &mut *mistakes,
        };
        file.check_items(&parsed.items);
    }
}

pub(crate) fn no_mistakes(mistakes: &[String], what: &str) {
    let mut report = String::new();
    for mistake in mistakes {
        writeln!(report, "{mistake}").unwrap();
    }
    assert!(mistakes.is_empty(), "{} {what}:\n{report}", mistakes.len());
}

#[test]
fn layers_import_from_below() {
    let mut mistakes = Vec::new();
    for (name, layers) in &crates() {
        check(name, layers, &mut mistakes);
        for module in layers.iter().flatten() {
            let path = Path::new(ROOT).join(name).join("src").join(module);
            if !path.exists() && !path.with_extension("rs").exists() {
                mistakes.push(format!("ARCHITECTURE.md: {name} has no module `{module}`"));
            }
        }
    }
    no_mistakes(&mistakes, "paths go up");
}
