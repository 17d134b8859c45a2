//! `#[derive(Static)]`: a type whose values may be static fields.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{DeriveInput, Ident};

use crate::errors::Errors;
use crate::expand::{implementation, in_scope, match_self, static_ref, static_ref_of};
use crate::fallback;
use crate::input::{Input, Macro, Variant};
use crate::kinds;
use crate::paths::Entry;

/// Expands the derive.
pub(crate) fn expand(input: &DeriveInput, entry: Entry) -> TokenStream {
    let mut errors = Errors::default();
    let read = Input::read(input, Macro::Static, entry, &mut errors);
    let root = &read.root;
    let trait_ = quote!(#root::StaticValue);
    let none = TokenStream::new();
    if let Some(errors) = errors.into_tokens() {
        let body = methods(&read, &quote!(true), &none, &quote!(__f.write_str("")));
        let stub = fallback::stub(&read, &none, &trait_, &body);
        return quote!(#errors const _: () = { #stub };);
    }
    let eq = equality(&read);
    let hash = match_self(
        &read,
        (0_u32..).zip(&read.variants).map(|(position, variant)| {
            let pattern = variant.pattern();
            let fields = variant
                .fields
                .iter()
                .map(|field| static_ref(&read, field))
                .map(|value| quote!(#root::StaticRef::add_to_hash(#value, __hasher);));
            quote!(#pattern => {
                ::core::hash::Hasher::write_u32(__hasher, #position);
                #(#fields)*
            })
        }),
    );
    let show = match_self(
        &read,
        read.variants.iter().map(|variant| show(&read, variant)),
    );
    let body = methods(&read, &eq, &hash, &show);
    let implementation = implementation(&read, &none, &trait_, &none, &body);
    let checks = kinds::checks(&read);
    in_scope(&read, &quote!(#checks #implementation))
}

fn methods(
    input: &Input<'_>,
    eq: &TokenStream,
    hash: &TokenStream,
    show: &TokenStream,
) -> TokenStream {
    let _ = input;
    quote! {
        fn static_eq(&self, __other: &Self) -> bool { #eq }
        fn static_hash(&self, __hasher: &mut dyn ::core::hash::Hasher) { #hash }
        fn static_show(&self, __f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result { #show }
    }
}

fn equality(input: &Input<'_>) -> TokenStream {
    let other = |variable: &Ident| format_ident!("{variable}_other");
    let arms = input.variants.iter().map(|variant| {
        let (pattern, path) = (variant.pattern(), variant.path());
        let others = variant.fields.iter().map(|field| {
            let (member, other) = (&field.member, other(&field.variable));
            quote!(#member: #other)
        });
        let equal = variant.fields.iter().map(|field| {
            let left = static_ref(input, field);
            let right = static_ref_of(input, field, &other(&field.variable));
            quote!(&& #left == #right)
        });
        quote!((#pattern, #path { #(#others),* }) => true #(#equal)*,)
    });
    let otherwise = (input.variants.len() != 1).then(|| quote!(_ => false,));
    quote!(match (self, __other) { #(#arms)* #otherwise })
}

/// Shows a value as `Debug` would.
fn show(input: &Input<'_>, variant: &Variant<'_>) -> TokenStream {
    let pattern = variant.pattern();
    let name = syn::ext::IdentExt::unraw(variant.ident.unwrap_or(input.ident)).to_string();
    let values = variant.fields.iter().map(|field| static_ref(input, field));
    let shown = if variant.fields.is_empty() {
        quote!(__f.write_str(#name))
    } else if variant.is_tuple {
        quote!(__f.debug_tuple(#name)#(.field(&#values))*.finish())
    } else {
        let names = variant.fields.iter().map(crate::input::Field::name);
        quote!(__f.debug_struct(#name)#(.field(#names, &#values))*.finish())
    };
    quote!(#pattern => #shown,)
}
