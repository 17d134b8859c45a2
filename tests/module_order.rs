//! The modules of a crate have an order, also inside of a layer: each imports only from modules below it. An item belongs to the module
//! that defines it, by whatever name others import it.

#![allow(
    clippy::unwrap_used,
    reason = "a test says what it checks in its name, and fails by panicking"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Item, Visibility};

use crate::architecture::{
    ROOT, after_colons, collect_paths, crates, is_path, is_test, is_visibility, module_of,
    no_mistakes, sources,
};

/// The crates with modules that import from one another in a cycle, and how many modules are in cycles. A number never rises.
/// A tensor may be on a device, whose engine compiles jaxprs, which have tensors as constants: so their types refer to one another.
/// So do the trait `Pytree` and the types of the arguments of its methods.
const IN_CYCLES: [(&str, usize); 2] = [("pytree-transform", 19), ("pytree-core", 9)];

/// The names of a path from the root of the crate.
type CratePath = Vec<String>;

/// What the code of one module names.
#[derive(Default)]
struct Names {
    paths: Vec<CratePath>,
    /// The names that `use` brings into the module.
    imports: BTreeMap<String, CratePath>,
    /// The modules of which `use` brings all names into the module.
    globs: Vec<CratePath>,
    /// The imports that other modules see, too.
    reexports: BTreeSet<String>,
    /// The first two names of paths that begin with another name.
    relative: Vec<[String; 2]>,
    identifiers: BTreeSet<String>,
}

/// Reads the code of one module.
struct Reader<'a> {
    module: CratePath,
    modules: &'a BTreeSet<CratePath>,
    names: Names,
}

impl Reader<'_> {
    fn read_items(&mut self, items: &[Item]) {
        for item in items {
            match item {
                Item::Mod(module) if is_test(&module.attrs) => {}
                Item::Mod(module) => {
                    if let Some((_, items)) = &module.content {
                        self.module.push(module.ident.to_string());
                        self.read_items(items);
                        self.module.pop();
                    }
                }
                Item::Use(item) => {
                    let tokens: Vec<TokenTree> = item.tree.to_token_stream().into_iter().collect();
                    for mut path in self.paths_of(&tokens) {
                        let name = path.last().unwrap().clone();
                        if name == "*" {
                            path.pop();
                            self.names.globs.push(path);
                            continue;
                        }
                        if !matches!(item.vis, Visibility::Inherited) {
                            self.names.reexports.insert(name.clone());
                        }
                        self.names.imports.insert(name, path);
                    }
                }
                _ => self.read_tokens(item.to_token_stream()),
            }
        }
    }

    fn read_tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let is_punct = |at: Option<usize>, punct: char| {
            let token = at.and_then(|at| tokens.get(at));
            matches!(token, Some(TokenTree::Punct(found)) if found.as_char() == punct)
        };
        for (at, token) in tokens.iter().enumerate() {
            match token {
                TokenTree::Group(group) if !is_visibility(group) => {
                    self.read_tokens(group.stream());
                }
                TokenTree::Ident(name) => {
                    self.names.identifiers.insert(name.to_string());
                    let [before, first] = [1, 2].map(|back| at.checked_sub(back));
                    // `$crate` is a path of the crate that uses the macro.
                    let continues = is_punct(before, ':') && is_punct(first, ':');
                    if continues || is_punct(before, '$') || !is_path(&tokens[at..]) {
                        continue;
                    }
                    let paths = self.paths_of(&tokens[at..]);
                    if paths.is_empty()
                        && let Some(TokenTree::Ident(next)) = tokens.get(at + 3)
                    {
                        let relative = [name.to_string(), next.to_string()];
                        self.names.relative.push(relative);
                    }
                    self.names.paths.extend(paths);
                }
                _ => {}
            }
        }
    }

    /// Returns the paths that these tokens name, or none if they do not begin in the crate.
    fn paths_of(&self, tokens: &[TokenTree]) -> Vec<CratePath> {
        let mut paths = Vec::new();
        let Some(TokenTree::Ident(first)) = tokens.first() else {
            return paths;
        };
        let mut child = self.module.clone();
        child.push(first.to_string());
        if first == "self" {
            collect_paths(self.module.clone(), after_colons(&tokens[1..]), &mut paths);
        } else if first == "crate" || first == "super" || self.modules.contains(&child) {
            collect_paths(self.module.clone(), tokens, &mut paths);
        }
        for path in &mut paths {
            path.pop_if(|last| last == "self");
        }
        paths.retain(|path| !path.is_empty());
        paths
    }
}

/// Returns the module that defines what a path names, or `None` for a path to a module itself.
fn defining<'m>(path: &[String], modules: &'m BTreeMap<CratePath, Names>) -> Option<&'m CratePath> {
    let (module, names) = (1..path.len())
        .rev()
        .find_map(|length| modules.get_key_value(&path[..length]))
        .filter(|_| !modules.contains_key(path))?;
    match names.imports.get(&path[module.len()]) {
        None => Some(module),
        Some(import) if import[..] == path[..=module.len()] => None,
        Some(import) => defining(&[import, &path[module.len() + 1..]].concat(), modules),
    }
}

/// For each module, the modules from which it imports.
type Arrows = BTreeMap<CratePath, BTreeSet<CratePath>>;

fn arrows(name: &str) -> Arrows {
    let source = Path::new(ROOT).join(name).join("src");
    let files = sources(&source).into_iter().filter_map(|path| {
        let module = module_of(path.strip_prefix(&source).unwrap());
        (module != ["lib"]).then_some((module, path))
    });
    let files: Vec<_> = files.collect();
    let known: BTreeSet<CratePath> = files.iter().map(|(module, _)| module.clone()).collect();
    let read = |(module, path): &(CratePath, _)| {
        let text = std::fs::read_to_string::<&std::path::PathBuf>(path).unwrap();
        let mut reader = Reader {
            module: module.clone(),
            modules: &known,
            names: Names::default(),
        };
        reader.read_items(&syn::parse_file(&text).unwrap().items);
        (module.clone(), reader.names)
    };
    let modules: BTreeMap<CratePath, Names> = files.iter().map(read).collect();
    let imports = |(module, names): (&CratePath, &Names)| {
        let is_used =
            |name: &String| !names.reexports.contains(name) || names.identifiers.contains(name);
        let used = names.imports.iter().filter(|(name, _)| is_used(name));
        let relative = names.relative.iter().filter_map(|[first, next]| {
            let mut path = names.imports.get(first)?.clone();
            path.push(next.clone());
            Some(path)
        });
        let globs = names.globs.iter().filter_map(|glob| modules.get(glob));
        let of_globs = globs.flat_map(|glob| &glob.imports).filter(|(name, _)| {
            names.identifiers.contains(*name) && !names.imports.contains_key(*name)
        });
        let paths = names
            .paths
            .iter()
            .chain(used.chain(of_globs).map(|(_, path)| path))
            .cloned();
        let found = paths
            .chain(relative)
            .filter_map(|path| defining(&path, &modules).cloned());
        (
            module.clone(),
            found.filter(|other| other != module).collect(),
        )
    };
    modules.iter().map(imports).collect()
}

/// Removes the modules that are in no cycle.
fn keep_cycles(arrows: &mut Arrows) {
    // First those that import from no cycle, which are most of them.
    loop {
        let count = arrows.len();
        let known: BTreeSet<CratePath> = arrows.keys().cloned().collect();
        for imports in arrows.values_mut() {
            imports.retain(|import| known.contains(import));
        }
        arrows.retain(|_, imports| !imports.is_empty());
        if arrows.len() == count {
            break;
        }
    }
    let imports_itself = |module: &CratePath| {
        let mut reached = BTreeSet::new();
        let mut next = vec![module];
        while let Some(module) = next.pop() {
            next.extend(arrows[module].iter().filter(|other| reached.insert(*other)));
        }
        reached.contains(module)
    };
    let in_cycles: BTreeSet<CratePath> = arrows
        .keys()
        .filter(|module| imports_itself(module))
        .cloned()
        .collect();
    arrows.retain(|module, _| in_cycles.contains(module));
    for imports in arrows.values_mut() {
        imports.retain(|import| in_cycles.contains(import));
    }
}

#[test]
fn modules_have_an_order() {
    let mut mistakes = Vec::new();
    for (name, _) in &crates() {
        let mut arrows = arrows(name);
        keep_cycles(&mut arrows);
        let known = IN_CYCLES.iter().find(|(known, _)| known == name);
        if arrows.len() <= known.map_or(0, |(_, count)| *count) {
            continue;
        }
        mistakes.push(format!("{name}: {} modules are in cycles", arrows.len()));
        for (module, imports) in arrows {
            let imports: Vec<String> = imports.iter().map(|import| import.join("::")).collect();
            mistakes.push(format!(
                "{name}: {} imports from {imports:?}",
                module.join("::")
            ));
        }
    }
    no_mistakes(&mistakes, "lines about modules in cycles");
}
