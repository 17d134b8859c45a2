//! The macros of pytree: tokens in, tokens out.
//!
//! Each macro runs through the same phases, one file each: `input` reads the item, `attributes` its
//! attributes, `check` states the rules across fields, `expand` writes the traits of pytrees and
//! modules, `kinds` the checks of each field's kind, and `fallback` answers an item with mistakes by all
//! their messages and by empty traits, so that one mistake is one error.
//!
//! Each macro exists twice: under its name for users of `pytree-core`, and with the prefix `Facade` for
//! users of `pytree`, which re-exports it under its name; the two differ in the paths of the code they
//! generate: see `paths`.

mod attributes;
mod check;
mod collection;
mod errors;
mod expand;
mod fallback;
mod input;
mod kinds;
mod leaf;
mod module_object;
mod panicking_twin;
mod paths;
mod statics;
#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    reason = "a failed unwrap is a failed test, and says where"
)]
mod tests;
mod tree;
mod types;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

use crate::input::Macro;
use crate::paths::Entry;

/// Declares a derive macro for each of the two entries.
macro_rules! derives {
    ($(
        $(#[doc = $doc:literal])*
        $expand:path: $core:ident = $core_function:ident, $facade:ident = $facade_function:ident, $attributes:tt;
    )*) => {$(
        derives! { @one [$(#[doc = $doc])*] $expand, Entry::Core, $core, $core_function, $attributes }
        derives! { @one [$(#[doc = $doc])*] $expand, Entry::Facade, $facade, $facade_function, $attributes }
    )*};
    (@one [$(#[doc = $doc:literal])*] $expand:path, $entry:expr, $name:ident, $function:ident, [$($attribute:ident)*]) => {
        $(#[doc = $doc])*
        #[proc_macro_derive($name, attributes($($attribute),*))]
        pub fn $function(input: TokenStream) -> TokenStream {
            $expand(&parse_macro_input!(input as DeriveInput), $entry).into()
        }
    };
}

derives! {
    /// Makes a struct or enum a module: a pytree each leaf of which has a kind.
    ///
    /// A field is `#[param]` (trained), `#[state]` or `#[state(Collection)]` (a leaf that is not trained),
    /// `#[r#static]` or `#[module(static)]` (part of the structure), or, without attribute, a module or
    /// a container of modules. `#[module(recursive)]` marks a field whose type leads back to the item by way
    /// of another type; where it names the item itself, none is needed. `#[module(crate = path)]` on the item
    /// says where the crate is found.
    module: Module = module_core, FacadeModule = module_facade, [param state r#static module pytree];

    /// Makes a struct or enum a pytree: a plain container, whose fields have no kind.
    ///
    /// A field is a child, or, with `#[r#static]` or `#[pytree(static)]`, part of the structure.
    /// `#[pytree(crate = path)]` on the item says where the crate is found.
    pytree: Pytree = pytree_core, FacadePytree = pytree_facade, [param state r#static module pytree];

    /// Lets a type be static: its values are compared, hashed and shown by their fields.
    statics::expand: Static = static_core, FacadeStatic = static_facade, [pytree];

    /// Makes a type a leaf; it needs `Clone + Debug + Send + Sync`.
    leaf::expand: Leaf = leaf_core, FacadeLeaf = leaf_facade, [pytree];

    /// Makes a unit struct a collection of states, for `#[state(Collection)]`.
    collection::expand: Collection = collection_core, FacadeCollection = collection_facade, [pytree];
}

fn module(input: &DeriveInput, entry: Entry) -> proc_macro2::TokenStream {
    expand::expand(input, Macro::Module, entry)
}

fn pytree(input: &DeriveInput, entry: Entry) -> proc_macro2::TokenStream {
    expand::expand(input, Macro::Pytree, entry)
}

/// Writes a dynamic tree; the first group of the input is the path of the crate. It is reached by `tree!`.
#[doc(hidden)]
#[proc_macro]
pub fn tree_of_tokens(input: TokenStream) -> TokenStream {
    tree::expand(input.into()).into()
}

/// Makes the boxes of a trait modules, so that a field can be a `Vec<Box<dyn Layer>>`.
///
/// A type that implements the trait must be a module, `Clone`, `Send` and `Sync`. The boxes are
/// cloneable, can be shown and are rebuilt with their types. `#[module_object(crate = path)]` says where
/// the crate is found.
#[proc_macro_attribute]
pub fn module_object(arguments: TokenStream, item: TokenStream) -> TokenStream {
    module_object::expand(arguments.into(), &item.into(), Entry::Core).into()
}

/// Makes the boxes of a trait modules: [`macro@module_object`] for users of `pytree`.
#[proc_macro_attribute]
pub fn facade_module_object(arguments: TokenStream, item: TokenStream) -> TokenStream {
    module_object::expand(arguments.into(), &item.into(), Entry::Facade).into()
}

/// Gives a function that returns a `Result` a twin that panics with the error's message, at the line of its caller.
///
/// It is for the crates of pytree: `#[panicking_twin(sort, Axis | DType)]` on `try_sort` writes `sort`. The documentation is
/// that of the twin, with a section `# Panics`; the variants of the error are named in the documentation of the function,
/// or its own section `# Errors` is.
#[doc(hidden)]
#[proc_macro_attribute]
pub fn panicking_twin(arguments: TokenStream, item: TokenStream) -> TokenStream {
    panicking_twin::expand(arguments.into(), item.into()).into()
}
