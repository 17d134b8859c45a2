//! Where generated code finds the crate.
//!
//! No Cargo.toml is read: the crate that re-exports a macro knows its own name, and who renames it says so
//! by `crate = path`.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};

/// The crate through which the macro was reached.
#[derive(Clone, Copy)]
pub(crate) enum Entry {
    /// `pytree-core`.
    Core,
    /// `pytree`, which has the core as its module `core`.
    Facade,
}

/// The path under which everything of `pytree-core` is found.
#[derive(Clone)]
pub(crate) struct Root(TokenStream);

impl Root {
    /// The root for an entry; `renamed` is the user's path to the entry's crate.
    pub(crate) fn new(entry: Entry, renamed: Option<&syn::Path>) -> Self {
        Self(match (entry, renamed) {
            (Entry::Core, None) => quote!(::pytree_core),
            (Entry::Facade, None) => quote!(::pytree::core),
            (Entry::Core, Some(path)) => path.to_token_stream(),
            (Entry::Facade, Some(path)) => quote!(#path::core),
        })
    }
}

impl ToTokens for Root {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        self.0.to_tokens(tokens);
    }
}
