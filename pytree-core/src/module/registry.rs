//! Modules: pytrees that enforce a kind for every leaf.

use std::borrow::Cow;

use crate::base::kind::FieldKind;
use crate::contract::pytree::Pytree;
use crate::module::field::ModuleField;

/// The names of a module's fields with their kinds: a constant of its type, or made for a module whose fields were registered
/// at run time.
pub type Registry<'a> = Cow<'a, [(&'a str, FieldKind)]>;

/// A pytree with an enforced kind for every leaf.
///
/// Implemented by `#[derive(Module)]`; every module can be a field without attribute of another.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a module",
    label = "a module is needed here",
    note = "write `#[derive(Module)]` on the type"
)]
pub trait Module: Pytree + ModuleField {
    /// The name-to-kind registry: the kind of every field, in declaration order. For an enum, that of
    /// the present variant.
    fn registry(&self) -> Registry<'_>;
}

/// The part of [`Module`] that belongs to the type and not to a value.
pub trait ModuleType: Module + Sized {
    /// The name-to-kind registry of a struct, in declaration order; empty for an enum, whose variants
    /// each have their own: see [`Module::registry`].
    const REGISTRY: &'static [(&'static str, FieldKind)];
}
