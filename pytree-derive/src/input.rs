//! The parsed item: its variants, and each field with its kind.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Fields, Generics, Ident, Member, Path, Type};

use crate::attributes::{self, FieldAttributes};
use crate::check;
use crate::errors::Errors;
use crate::paths::{Entry, Root};
use crate::shape_language::ShapeText;
use crate::types::{Mentions, spell_self};

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

impl<'a> Input<'a> {
    /// Parses the item, and reports all its errors.
    pub(crate) fn read(
        input: &'a DeriveInput,
        macro_: Macro,
        entry: Entry,
        errors: &mut Errors,
    ) -> Self {
        let renamed = attributes::of_item(&input.attrs, macro_, errors);
        if let (Data::Enum(data), Macro::Module | Macro::Pytree) = (&input.data, macro_) {
            for variant in &data.variants {
                attributes::of_variant(&variant.attrs, errors);
            }
        }
        check::lifetimes(&input.generics, macro_, errors);
        let mut read = |ident, fields: &'a Fields| Variant {
            ident,
            is_tuple: matches!(fields, Fields::Unnamed(_)),
            fields: read_fields(input, macro_, fields, errors),
        };
        let variants = match &input.data {
            Data::Struct(data) => vec![read(None, &data.fields)],
            Data::Enum(data) => data
                .variants
                .iter()
                .map(|variant| read(Some(&variant.ident), &variant.fields))
                .collect(),
            Data::Union(_) => Vec::new(),
        };
        check::data(&input.data, macro_, errors);
        for variant in &variants {
            check::axes(&variant.fields, &input.generics, errors);
        }
        Self {
            macro_,
            path: Root::new(entry, renamed.as_ref()),
            root: Root::alias(),
            ident: &input.ident,
            generics: &input.generics,
            variants,
            is_enum: !matches!(input.data, Data::Struct(_)),
        }
    }

    /// Iterates over the fields of all variants.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &Field> {
        self.variants.iter().flat_map(|variant| &variant.fields)
    }

    /// Iterates over all fields that are children.
    pub(crate) fn children(&self) -> impl Iterator<Item = &Field> {
        self.fields().filter(|field| !field.is_static())
    }
}

fn read_fields(
    input: &DeriveInput,
    macro_: Macro,
    fields: &Fields,
    errors: &mut Errors,
) -> Vec<Field> {
    let members = fields.members();
    fields
        .iter()
        .zip(members)
        .enumerate()
        .map(|(position, (field, member))| {
            let attributes = match macro_ {
                Macro::Static => FieldAttributes::default(),
                Macro::Module | Macro::Pytree => attributes::of_field(&field.attrs, errors),
            };
            check::kinds(&attributes.kinds, macro_, errors);
            check::stacked(&attributes, macro_, errors);
            check::references(&field.ty, macro_, errors);
            let ty = spell_self(&field.ty, &input.ident, &input.generics);
            let mut mentions = Mentions::of(&ty, &input.ident, &input.generics);
            mentions.itself |= attributes.is_recursive;
            let is_saved = attributes.is_saved;
            let written = attributes.kinds.into_iter().next();
            let (kind, axes) = match (macro_, written) {
                (Macro::Static, _) => (Kind::Static, None),
                (_, Some(written)) => (written.kind, written.axes),
                (_, None) => (Kind::Child, attributes.stacked.or(attributes.axes)),
            };
            let (this, other) = if matches!(input.data, Data::Struct(_)) {
                (quote!(&self.#member), quote!(&__other.#member))
            } else {
                let [this, other] =
                    ["field", "other"].map(|name| format_ident!("__{name}_{position}"));
                (quote!(#this), quote!(#other))
            };
            Field {
                member,
                this,
                other,
                ty,
                kind,
                is_saved,
                mentions,
                axes,
                span: match &field.ident {
                    Some(ident) => ident.span(),
                    None => field.ty.span(),
                },
            }
        })
        .collect()
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
