//! What an attribute says about a field: its kind, for the derive macro that reads it.
use syn::Path;

/// The derive macro that receives an item.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Macro {
    /// `#[derive(Module)]`: every field has a kind.
    Module,
    /// `#[derive(Pytree)]`: fields are children or static.
    Pytree,
    /// `#[derive(Static)]`: all fields are static.
    Static,
}

/// The kind of a field according to its attribute.
#[derive(Clone)]
pub(crate) enum Kind {
    /// A field without an attribute.
    Child,
    /// `#[param]` or `#[param(Collection)]`.
    Param(Option<Path>),
    /// `#[state]` or `#[state(Collection)]`.
    State(Option<Path>),
    /// `#[r#static]`, `#[module(static)]` or `#[pytree(static)]`.
    Static,
}
