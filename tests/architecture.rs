//! The folders of a crate are layers: each imports only from those below it. And every test of `tests` is run.

#![allow(
    clippy::unwrap_used,
    reason = "a test says what it checks in its name, and fails by panicking"
)]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Attribute, Item};

/// The folder of the workspace.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The layers of each crate, from the lowest to the highest. ARCHITECTURE.md describes them.
const CRATES: [(&str, &[&str]); 2] = [
    (
        "pytree-core",
        &[
            "base",
            "node",
            "treedef",
            "contract",
            "references",
            "trees",
            "module",
            "tools",
            "notations",
        ],
    ),
    (
        "pytree-transform",
        &[
            "base",
            "tensor",
            "jaxpr",
            "primitives",
            "passes",
            "executor",
            "operations",
            "transformations",
        ],
    ),
];

/// Checks the paths of one file.
struct File<'a> {
    /// The name of the crate in paths.
    crate_name: String,
    layers: &'a [&'a str],
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
                TokenTree::Group(group) => self.check_tokens(group.stream()),
                // `$crate` is a path of the crate that uses the macro.
                TokenTree::Punct(dollar) if dollar.as_char() == '$' => at += 1,
                TokenTree::Ident(name) if name == "crate" || name == "super" => {
                    let begins = !matches!(at.checked_sub(1).map(|before| &tokens[before]),
                        Some(TokenTree::Punct(colon)) if colon.as_char() == ':');
                    if begins && is_path(&tokens[at..]) {
                        let base = self.module.clone();
                        self.check_path(base, &tokens[at..]);
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
        let rank = |layer: &str| self.layers.iter().position(|known| *known == layer);
        let own = self.module.first().and_then(|own| rank(own));
        match (own, rank(named)) {
            (Some(own), Some(named)) if named <= own => {}
            (Some(own), Some(_)) => {
                let layer = self.layers[own];
                self.mistake(
                    place,
                    &format!("`{layer}` imports from `{named}`, which is above it"),
                );
            }
            (Some(_), None) => {
                let mistake = format!(
                    "`crate::{named}` is not a layer; name the module that defines the item"
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

fn is_path(tokens: &[TokenTree]) -> bool {
    matches!(tokens, [_, TokenTree::Punct(a), TokenTree::Punct(b), ..] if a.as_char() == ':' && b.as_char() == ':')
}

fn after_colons(tokens: &[TokenTree]) -> &[TokenTree] {
    tokens.get(2..).unwrap_or_default()
}

fn is_test(attributes: &[Attribute]) -> bool {
    let is_cfg_test = |attribute: &Attribute| {
        attribute.path().is_ident("cfg") && attribute.to_token_stream().to_string().contains("test")
    };
    attributes.iter().any(is_cfg_test)
}

/// The files below a folder but for those of tests, which a `#[cfg(test)] mod` names.
fn sources(folder: &Path) -> Vec<PathBuf> {
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
fn module_of(file: &Path) -> Vec<String> {
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

#[test]
fn layers_import_from_below() {
    let mut mistakes = Vec::new();
    for (name, layers) in CRATES {
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
                mistakes: &mut mistakes,
            };
            file.check_items(&parsed.items);
        }
    }
    let mut report = String::new();
    for mistake in &mistakes {
        writeln!(report, "{mistake}").unwrap();
    }
    assert!(
        mistakes.is_empty(),
        "{} paths go up:\n{report}",
        mistakes.len()
    );
}

/// Cargo finds no test of that package by itself, and a file that it does not know is never run.
#[test]
fn every_test_is_named_in_its_package() {
    let folder = Path::new(ROOT).join("tests");
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    let mut targets = Vec::new();
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.extension().is_some_and(|extension| extension == "rs") {
            targets.push(name);
        } else if path.join("main.rs").is_file() && !path.join("Cargo.toml").is_file() {
            targets.push(format!("{name}/main.rs"));
        }
    }
    assert!(targets.len() > 10, "the tests are found");
    targets.retain(|target| !manifest.contains(&format!("path = \"{target}\"")));
    assert!(
        targets.is_empty(),
        "tests/Cargo.toml names no test of: {targets:?}"
    );
}

/// Files of numbers, whose methods have the names of those of tensors; no rule is in them that calls one.
const OF_NUMBERS: [&str; 6] = [
    "primitives/cumulative.rs",
    "primitives/elementwise/kernels.rs",
    "primitives/elementwise/operators.rs",
    "primitives/linalg/spectral_kernels.rs",
    "primitives/shape/rule_checks.rs",
    "tensor/display/numbers.rs",
];

/// Methods of the standard library that have the name of one of tensors, and are called below the operations.
const OF_THE_STANDARD_LIBRARY: [&str; 11] = [
    "all", "any", "flatten", "max", "min", "repeat", "reverse", "split", "split_at", "sum", "take",
];

/// The methods and functions that `impl` blocks define, those that macros define in them included: of tensors only, or of
/// all types but only those that are called with a receiver.
fn methods(items: &[Item], of_tensors: bool, found: &mut BTreeSet<String>) {
    for item in items {
        match item {
            Item::Impl(block) => {
                let inherent = block.trait_.is_none();
                let is_tensor = block.self_ty.to_token_stream().to_string() == "Tensor";
                for item in &block.items {
                    if let syn::ImplItem::Fn(function) = item {
                        let wanted = if of_tensors {
                            inherent && is_tensor
                        } else {
                            function.sig.receiver().is_some()
                        };
                        if wanted {
                            let name = function.sig.ident.to_string();
                            // An attribute writes the panicking twin of a fallible method.
                            let twin = name.strip_prefix("try_").map(str::to_owned);
                            found.extend(twin.into_iter().chain([name]));
                        }
                    }
                }
            }
            Item::Trait(block) if !of_tensors => {
                for item in &block.items {
                    if let syn::TraitItem::Fn(function) = item {
                        found.insert(function.sig.ident.to_string());
                    }
                }
            }
            // `unary_methods! { /// … abs = Unary::Abs; }`: the names before the equals signs.
            Item::Macro(call) if of_tensors && call.ident.is_none() => {
                let tokens: Vec<TokenTree> = call.mac.tokens.clone().into_iter().collect();
                let ends = |token: &TokenTree| is_punctuation(token, ';');
                for method in tokens.split(ends) {
                    let name = |token: &TokenTree| match token {
                        TokenTree::Ident(name) => Some(name.to_string()),
                        _ => None,
                    };
                    let head = method
                        .iter()
                        .take_while(|token| !is_punctuation(token, '='));
                    found.extend(head.filter_map(name));
                }
            }
            Item::Mod(module) if !is_test(&module.attrs) => {
                if let Some((_, items)) = &module.content {
                    methods(items, of_tensors, found);
                }
            }
            _ => {}
        }
    }
}

fn is_punctuation(token: &TokenTree, character: char) -> bool {
    matches!(token, TokenTree::Punct(found) if found.as_char() == character)
}

/// The calls `receiver.name(…)` and `Tensor::name(…)` of some names. A receiver in capitals is a number.
fn calls(tokens: TokenStream, names: &BTreeSet<String>, found: &mut Vec<(usize, String)>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) => calls(group.stream(), names, found),
            TokenTree::Ident(name) if names.contains(&name.to_string()) => {
                let before = |count: usize| at.checked_sub(count).map(|at| &tokens[at]);
                let is_named = |token: Option<&TokenTree>, accepts: fn(&str) -> bool| match token {
                    Some(TokenTree::Ident(name)) => accepts(&name.to_string()),
                    _ => false,
                };
                let is_number = is_named(before(2), |name| name == name.to_uppercase());
                let is_method = before(1).is_some_and(|token| is_punctuation(token, '.'));
                let is_path = before(1).is_some_and(|token| is_punctuation(token, ':'))
                    && is_named(before(3), |name| name == "Tensor");
                let is_call = matches!(tokens.get(at + 1), Some(TokenTree::Group(group))
                    if group.delimiter() == Delimiter::Parenthesis);
                if is_call && ((is_method && !is_number) || is_path) {
                    found.push((name.span().start().line, name.to_string()));
                }
            }
            _ => {}
        }
    }
}

/// No path shows that a rule calls a method of tensors: its name does.
#[test]
fn rules_call_no_methods_of_operations() {
    let source = Path::new(ROOT).join("pytree-transform/src");
    let parsed = |layer: &str| -> Vec<(String, Vec<Item>)> {
        let files = sources(&source.join(layer)).into_iter();
        let parsed = files.map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            let inside = path.strip_prefix(&source).unwrap().display().to_string();
            (inside, syn::parse_file(&text).unwrap().items)
        });
        parsed.collect()
    };
    let below: Vec<(String, Vec<Item>)> = ["tensor", "jaxpr", "primitives", "passes", "executor"]
        .into_iter()
        .flat_map(parsed)
        .collect();
    let (mut of_operations, mut of_below) = (BTreeSet::new(), BTreeSet::new());
    for (_, items) in parsed("operations") {
        methods(&items, true, &mut of_operations);
    }
    for name in ["exp", "zeros_like", "try_equal", "select"] {
        assert!(of_operations.contains(name), "`{name}` is not found");
    }
    for (_, items) in &below {
        methods(items, false, &mut of_below);
    }
    let exceptions = OF_THE_STANDARD_LIBRARY.map(str::to_owned);
    of_operations.retain(|name| !of_below.contains(name) && !exceptions.contains(name));
    let mut report = String::new();
    for (path, items) in &below {
        if OF_NUMBERS.contains(&path.as_str()) {
            continue;
        }
        let mut found = Vec::new();
        for item in items {
            if !matches!(item, Item::Mod(module) if is_test(&module.attrs)) {
                calls(item.to_token_stream(), &of_operations, &mut found);
            }
        }
        for (line, name) in found {
            writeln!(report, "pytree-transform/src/{path}:{line}: `{name}`").unwrap();
        }
    }
    assert!(
        report.is_empty(),
        "methods that `operations` defines are called below it; call the function of the primitive:\n{report}"
    );
}
