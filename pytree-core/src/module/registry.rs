//! Modules: pytrees that enforce a kind for every leaf.

use std::borrow::Cow;

use crate::base::kind::FieldKind;
use crate::contract::pytree::Pytree;
use crate::module::field::ModuleField;

/// The names and kinds of a module's fields. A registry is a constant of a derived type, or a list of the fields that
/// were registered at run time.
pub type Registry<'a> = Cow<'a, [(&'a str, FieldKind)]>;

/// A pytree with an enforced kind for every leaf.
///
/// `#[derive(Module)]` implements this trait. Every module can be a field of another module without an attribute.
#[doc(alias("nnx.Module", "nn.Module", "eqx.Module", "pax.Module"))]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a module",
    label = "a module is needed here",
    note = "write `#[derive(Module)]` on the type"
)]
pub trait Module: Pytree + ModuleField {
    /// Returns the registry: the name and the kind of every field, in declaration order. For an enum, returns the
    /// registry of the current variant.
    ///
    /// PAX calls it `name_to_kind`.
    #[doc(alias = "name_to_kind")]
    fn registry(&self) -> Registry<'_>;
}

/// A [`Module`] whose registry is known from the type alone, without a value.
pub trait ModuleType: Module + Sized {
    /// The name and the kind of every field of a struct, in declaration order. The registry is empty for an enum,
    /// because each variant has its own registry; see [`Module::registry`].
    ///
    /// PAX calls it `name_to_kind`.
    #[doc(alias = "name_to_kind")]
    const REGISTRY: &'static [(&'static str, FieldKind)];
}
