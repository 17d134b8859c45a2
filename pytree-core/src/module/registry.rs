//! Modules: pytrees that enforce a kind for every leaf.

use std::borrow::Cow;

use crate::base::kind::FieldKind;
use crate::contract::pytree::Pytree;
use crate::module::field::ModuleField;

/// The names of a module's fields with their kinds: a constant of the type, or a list of the fields that were
/// registered at run time.
pub type Registry<'a> = Cow<'a, [(&'a str, FieldKind)]>;

/// A pytree with an enforced kind for every leaf.
///
/// `#[derive(Module)]` implements it. Every module can be a field of another module without an attribute.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a module",
    label = "a module is needed here",
    note = "write `#[derive(Module)]` on the type"
)]
pub trait Module: Pytree + ModuleField {
    /// Returns the name-to-kind registry: the kind of every field, in declaration order. For an enum, returns the
    /// registry of the current variant.
    fn registry(&self) -> Registry<'_>;
}

/// The part of [`Module`] that belongs to the type and not to a value.
pub trait ModuleType: Module + Sized {
    /// The name-to-kind registry of a struct, in declaration order. It is empty for an enum, whose variants each have
    /// their own; see [`Module::registry`].
    const REGISTRY: &'static [(&'static str, FieldKind)];
}
