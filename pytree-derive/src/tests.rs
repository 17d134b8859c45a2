//! Tests which code the macros generate and which items they reject, by calling the functions that expand the macros.
//!
//! The tests of `pytree-core` check that the generated code compiles and works.

mod accepted;
mod defaults;
mod language;
mod mistakes;
mod snapshots;
mod suggestions;
mod twins;

use proc_macro2::{TokenStream, TokenTree};
use syn::LitStr;

use crate::attributes::kind::Macro;
use crate::paths::Entry;
use crate::{collection, expand, leaf, module_object, panicking_twin, shapes, statics};

/// Expands the derive `name` of `pytree-core` for an item.
fn derive(name: &str, item: &str) -> TokenStream {
    derive_for(name, item, Entry::Core)
}

/// Expands the derive `name` of the crate `entry` for an item.
fn derive_for(name: &str, item: &str, entry: Entry) -> TokenStream {
    let input = syn::parse_str(item).unwrap();
    match name {
        "Module" => expand::expand(&input, Macro::Module, entry),
        "Pytree" => expand::expand(&input, Macro::Pytree, entry),
        "Static" => statics::expand(&input, entry),
        "Leaf" => leaf::expand(&input, entry),
        "Collection" => collection::expand(&input, entry),
        _ => panic!("there is no derive `{name}`"),
    }
}

/// Expands `#[module_object]` of `pytree-core` for an item.
fn object(arguments: &str, item: &str) -> TokenStream {
    let [arguments, item] = [arguments, item].map(|text| text.parse().unwrap());
    module_object::expand(arguments, &item, Entry::Core)
}

/// Expands `#[shapes]` of `pytree-core` for a function.
fn function_with_shapes(arguments: &str, item: &str) -> TokenStream {
    let [arguments, item] = [arguments, item].map(|text| text.parse().unwrap());
    shapes::attribute(arguments, item, Entry::Core)
}

/// Expands `shaped!` of `pytree-core`.
fn closure_with_shapes(input: &str) -> TokenStream {
    shapes::closure(input.parse().unwrap(), Entry::Core)
}

/// Expands `#[panicking_twin]` for an item.
fn twin(arguments: &str, item: &str) -> TokenStream {
    let [arguments, item] = [arguments, item].map(|text| text.parse().unwrap());
    panicking_twin::expand(arguments, item)
}

/// Returns the reported mistakes, each with the source text of its span and its message.
fn mistakes(expanded: &TokenStream) -> Vec<(String, String)> {
    let tokens: Vec<TokenTree> = expanded.clone().into_iter().collect();
    tokens
        .windows(3)
        .filter(|tokens| tokens[0].to_string() == "compile_error")
        .map(|tokens| {
            let TokenTree::Group(message) = &tokens[2] else {
                panic!("a message is in braces");
            };
            let place = tokens[0].span().join(message.span());
            let place = place.and_then(|place| place.source_text());
            let message: LitStr = syn::parse2(message.stream()).unwrap();
            (place.unwrap_or_default(), message.value())
        })
        .collect()
}

/// Returns the names of the implemented traits, without their paths, in the order of the implementations.
fn implemented(expanded: &TokenStream) -> Vec<String> {
    struct Names(Vec<String>);
    impl<'ast> syn::visit::Visit<'ast> for Names {
        fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
            let (path, _) = item.trait_.as_ref().unwrap();
            let name = &path.segments.last().unwrap().ident;
            self.0.push(name.to_string());
        }
    }
    let file: syn::File = syn::parse2(expanded.clone()).unwrap();
    let mut names = Names(Vec::new());
    syn::visit::Visit::visit_file(&mut names, &file);
    names.0
}

/// Returns the generated code as text without spaces.
fn text(expanded: &TokenStream) -> String {
    expanded.to_string().split_whitespace().collect()
}
