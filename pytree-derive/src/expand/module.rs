//! Generates the traits that depend on the kinds of fields, for a module or for a plain container.

use proc_macro2::TokenStream;
use quote::quote;

use super::parts::{field_kind, implementation, match_self, quantifier};
use crate::input::{Input, Variant};

/// Generates the implementations of a module.
pub(super) fn module(input: &Input<'_>) -> TokenStream {
    let root = &input.root;
    let registry_of = |variant: &Variant<'_>| {
        let entries = variant.fields.iter().map(|field| {
            let name = field.name();
            let kind = field_kind(input, field, false);
            quote!((#name, #kind))
        });
        quote!(&[#(#entries),*])
    };
    let none = TokenStream::new();
    let (constant, value) = if input.is_enum {
        let value = match_self(input, |_, variant| {
            let registry = registry_of(variant);
            quote!(#root::Registry::Borrowed(const { #registry }))
        });
        (quote!(&[]), value)
    } else {
        let constant = input.variants.iter().map(registry_of).collect();
        let borrowed = quote!(#root::Registry::Borrowed(<Self as #root::ModuleType>::REGISTRY));
        (constant, borrowed)
    };
    let registry = quote!(&'static [(&'static ::core::primitive::str, #root::FieldKind)]);
    let implement = |trait_: TokenStream, body: TokenStream| {
        implementation(input, &none, &trait_, &none, &body)
    };
    let implementations = [
        implement(quote!(#root::field::ModuleField), TokenStream::new()),
        implement(quote!(#root::field::HoldsArrays), TokenStream::new()),
        implement(
            quote!(#root::Module),
            quote!(fn registry(&self) -> #root::Registry<'_> { #value }),
        ),
        implement(
            quote!(#root::ModuleType),
            quote!(const REGISTRY: #registry = #constant;),
        ),
    ];
    quote!(#(#implementations)*)
}

/// Generates the implementations of a plain container, which depend on its children. For example, the container is a
/// module if all its children are modules.
pub(super) fn container(input: &Input<'_>) -> TokenStream {
    let root = &input.root;
    let none = TokenStream::new();
    let kinds = [quote!(ModuleField), quote!(ParamField), quote!(StateField)];
    let implementations = kinds.iter().map(|kind| {
        let bounds = input
            .children()
            .filter(|field| !field.mentions.itself)
            .map(|field| {
                let ty = &field.ty;
                let quantified = quantifier(field);
                quote!(#quantified #ty: #root::field::#kind,)
            })
            .collect();
        implementation(input, &none, &quote!(#root::field::#kind), &bounds, &none)
    });
    let holds = implementation(
        input,
        &none,
        &quote!(#root::field::HoldsArrays),
        &none,
        &none,
    );
    quote!(#(#implementations)* #holds)
}
