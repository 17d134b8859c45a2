//! The parsed item: its variants, and each field with its kind.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::{Generics, Ident, Member, Type};

use crate::attributes::kind::{Kind, Macro};
use crate::paths::Root;
use crate::shape_language::ShapeText;
use crate::types::Mentions;

/// A parsed struct or enum.
pub(crate) struct Input<'a> {
    pub(crate) macro_: Macro,
    /// The path of the library's items.
    pub(crate) path: Root,
    /// The name of this path in the scope of the generated code.
    pub(crate) root: Root,
    pub(crate) ident: &'a Ident,
    pub(crate) generics: &'a Generics,
    /// The variants of an enum. A struct has a single variant.
    pub(crate) variants: Vec<Variant<'a>>,
    pub(crate) is_enum: bool,
}

/// The fields of a struct, or of a variant of an enum.
pub(crate) struct Variant<'a> {
    /// The name of the variant. `None` for a struct.
    pub(crate) ident: Option<&'a Ident>,
    pub(crate) is_tuple: bool,
    pub(crate) fields: Vec<Field>,
}

/// A field of a struct or variant.
pub(crate) struct Field {
    pub(crate) member: Member,
    /// The expression in generated code for a reference to the field of `self`: `&self.field`, or the variable of a pattern.
    pub(crate) this: TokenStream,
    /// The expression for a reference to the field of `__other`, which generated code compares with `self`.
    pub(crate) other: TokenStream,
    pub(crate) ty: Type,
    pub(crate) kind: Kind,
    /// Whether checkpoints contain the value of the static field: `#[r#static(saved)]`.
    pub(crate) is_saved: bool,
    pub(crate) mentions: Mentions,
    /// The named axes of the arrays in the field. For a stacked module: the axes by which it is stacked, and `...`.
    pub(crate) axes: Option<ShapeText>,
    /// The span for error messages about the field: the span of the field's name, or of its type if the field is
    /// unnamed.
    pub(crate) span: Span,
}

impl Field {
    /// Returns the name of the field, or its position if it is unnamed.
    pub(crate) fn name(&self) -> String {
        match &self.member {
            Member::Named(ident) => syn::ext::IdentExt::unraw(ident).to_string(),
            Member::Unnamed(index) => index.index.to_string(),
        }
    }

    pub(crate) fn is_static(&self) -> bool {
        matches!(self.kind, Kind::Static)
    }
}

impl Input<'_> {
    /// Iterates over the fields of all variants.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &Field> {
        self.variants.iter().flat_map(|variant| &variant.fields)
    }

    /// Iterates over all fields that are children.
    pub(crate) fn children(&self) -> impl Iterator<Item = &Field> {
        self.fields().filter(|field| !field.is_static())
    }
}

impl Variant<'_> {
    /// Returns the path that generated code uses to construct and match the variant: `Self` or `Self::Variant`.
    pub(crate) fn path(&self) -> TokenStream {
        let variant = self.ident.map(|ident| quote!(::#ident));
        quote!(Self #variant)
    }

    /// Returns the name of the node in displays: `Item` or `Item::Variant`.
    pub(crate) fn name(&self, item: &Ident) -> String {
        let item = syn::ext::IdentExt::unraw(item);
        match self.ident {
            Some(variant) => format!("{item}::{}", syn::ext::IdentExt::unraw(variant)),
            None => item.to_string(),
        }
    }

    /// Returns an expression that builds the variant from the values of its fields, or a pattern.
    pub(crate) fn with(&self, value: impl Fn(&Field) -> TokenStream) -> TokenStream {
        let path = self.path();
        let members = self.fields.iter().map(|field| &field.member);
        let values = self.fields.iter().map(value);
        quote!(#path { #(#members: #values),* })
    }

    /// Iterates over the static fields, in declaration order.
    pub(crate) fn statics(&self) -> impl Iterator<Item = &Field> {
        self.fields.iter().filter(|field| field.is_static())
    }

    /// Iterates over the fields that are children, in declaration order.
    pub(crate) fn children(&self) -> impl Iterator<Item = &Field> {
        self.fields.iter().filter(|field| !field.is_static())
    }
}
