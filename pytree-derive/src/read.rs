//! Reads an item: its variants, and each field with its kind.
use quote::{format_ident, quote};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Fields};

use crate::attributes::kind::{Kind, Macro};
use crate::attributes::{self, FieldAttributes};
use crate::check;
use crate::errors::Errors;
use crate::input::{Field, Input, Variant};
use crate::paths::{Entry, Root};
use crate::types::{Mentions, spell_self};

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
