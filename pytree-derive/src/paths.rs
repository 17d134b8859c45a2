//! Finds the path that generated code uses for the library.
//!
//! The macros do not read Cargo.toml. Each crate re-exports its own version of a macro, which generates the paths of
//! this crate. A user who renames the crate writes `crate = path`.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};

/// The crate that the user imports the macro from.
#[derive(Clone, Copy)]
pub(crate) enum Entry {
    /// `pytree-core`.
    Core,
    /// `pytree`, which re-exports the core as its module `core`.
    Facade,
}

/// The path of the items of `pytree-core` that generated code uses: a hidden module whose name contains the version.
/// The module separates these items from the public API.
#[derive(Clone)]
pub(crate) struct Root(TokenStream);

impl Root {
    /// Returns the path of `pytree-core` for an entry. `renamed` is the path that the user wrote as `crate = path`.
    pub(crate) fn new(entry: Entry, renamed: Option<&syn::Path>) -> Self {
        let core = match (entry, renamed) {
            (Entry::Core, None) => quote!(::pytree_core),
            (Entry::Facade, None) => quote!(::pytree::core),
            (Entry::Core, Some(path)) => path.to_token_stream(),
            (Entry::Facade, Some(path)) => quote!(#path::core),
        };
        Self(quote!(#core::__derive_0_1))
    }

    /// Returns the name that [`imported`](Self::imported) gives this path. It is shorter, and generated code has it often.
    pub(crate) fn alias() -> Self {
        Self(quote!(__core))
    }

    /// Returns the import of the path under its short name, for the scope of generated code.
    pub(crate) fn imported(&self) -> TokenStream {
        let (Self(path), alias) = (self, Self::alias());
        quote!(use #path as #alias;)
    }
}

impl ToTokens for Root {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        self.0.to_tokens(tokens);
    }
}

/// Gives all tokens the span, so that an error of rustc shows the user's code and not the derive.
pub(crate) fn located(tokens: TokenStream, span: Span) -> TokenStream {
    let tokens = tokens.into_iter().map(|mut token| {
        token.set_span(span);
        token
    });
    tokens.collect()
}
