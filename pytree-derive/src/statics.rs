//! `#[derive(Static)]`: a type whose values may be static fields.

use proc_macro2::TokenStream;
use quote::quote;
use syn::DeriveInput;

use crate::attributes::kind::Macro;
use crate::errors::Errors;
use crate::expand::parts::{implementation, in_scope, match_pair, match_self, static_ref};
use crate::input::{Field, Input, Variant};
use crate::paths::Entry;
use crate::{fallback, kinds};

/// Expands `#[derive(Static)]`.
pub(crate) fn expand(input: &DeriveInput, entry: Entry) -> TokenStream {
    let mut errors = Errors::default();
    let read = Input::read(input, Macro::Static, entry, &mut errors);
    let root = &read.root;
    let trait_ = quote!(#root::StaticValue);
    let none = TokenStream::new();
    if let Some(errors) = errors.into_tokens() {
        let body = quote! {
            fn static_eq(&self, _: &Self) -> ::core::primitive::bool { true }
            fn static_hash(&self, _: &mut dyn ::core::hash::Hasher) {}
            fn static_show(&self, _: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                ::core::result::Result::Ok(())
            }
        };
        let stub = fallback::stub(&read, &none, &trait_, &body);
        let import = read.path.imported();
        return quote!(#errors const _: () = { #import #stub };);
    }
    let eq = equality(&read);
    let hash = match_self(&read, |_, variant| {
        let name = value_name(&read, variant);
        let fields = variant
            .fields
            .iter()
            .map(|field| static_ref(&read, field, &field.this))
            .map(|value| quote!(#root::StaticRef::add_to_hash(#value, __hasher);));
        quote! {
            #root::StaticRef::add_to_hash(#root::StaticRef::new(&#name), __hasher);
            #(#fields)*
        }
    });
    let show = match_self(&read, |_, variant| show(&read, variant));
    let data = match_self(&read, |_, variant| data(&read, variant));
    let from_data = from_data(&read);
    let body = quote! {
        fn static_eq(&self, __other: &Self) -> ::core::primitive::bool { #eq }
        fn static_hash(&self, __hasher: &mut dyn ::core::hash::Hasher) { #hash }
        fn static_show(&self, __f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result { #show }
        fn static_data(&self) -> #root::StaticData { #data }
        fn from_static_data(__data: &#root::StaticData) -> ::core::option::Option<Self> { #from_data }
    };
    let implementation = implementation(&read, &none, &trait_, &none, &body);
    let checks = kinds::checks(&read);
    in_scope(&read, &quote!(#checks #implementation))
}

/// Returns the name of a value in displays and data: the name of its variant or, for a struct, of its type.
fn value_name(input: &Input<'_>, variant: &Variant<'_>) -> String {
    syn::ext::IdentExt::unraw(variant.ident.unwrap_or(input.ident)).to_string()
}

/// Generates the code that converts a value to data. The data consist of the name of the value and its fields as data.
fn data(input: &Input<'_>, variant: &Variant<'_>) -> TokenStream {
    let root = &input.root;
    let name = value_name(input, variant);
    let fields = variant.fields.iter().map(|field| {
        let (name, value) = (field.name(), static_ref(input, field, &field.this));
        quote!((::std::string::String::from(#name), #root::StaticRef::data(#value)))
    });
    quote!(#root::StaticData::Record {
        name: ::std::string::String::from(#name),
        fields: ::std::vec![#(#fields),*],
    })
}

/// Generates the code that converts data to a value. The conversion fails if no variant has the name that the data
/// contain, or if a field is missing.
fn from_data(input: &Input<'_>) -> TokenStream {
    let root = &input.root;
    let arms = input.variants.iter().map(|variant| {
        let (path, name, count) = (
            variant.path(),
            value_name(input, variant),
            variant.fields.len(),
        );
        let names = variant.fields.iter().map(Field::name);
        let fields = variant.fields.iter().enumerate().map(|(position, field)| {
            let (member, ty) = (&field.member, &field.ty);
            let of = if field.mentions.parameters {
                quote!(<#ty as #root::StaticValue>::from_static_data)
            } else {
                quote!(#root::field::Probe::<#ty>::from_data)
            };
            quote!(#member: #of(&__fields[#position].1)?)
        });
        let positions = 0..count;
        quote! {
            if __name == #name && __fields.len() == #count #(&& __fields[#positions].0 == #names)* {
                return ::core::option::Option::Some(#path { #(#fields),* });
            }
        }
    });
    quote! {
        if let #root::StaticData::Record { name: __name, fields: __fields } = __data {
            #(#arms)*
        }
        ::core::option::Option::None
    }
}

fn equality(input: &Input<'_>) -> TokenStream {
    match_pair(input, |field| {
        let [left, right] =
            [&field.this, &field.other].map(|value| static_ref(input, field, value));
        quote!(#left == #right)
    })
}

/// Generates the display of a value, in the form of `Debug`.
fn show(input: &Input<'_>, variant: &Variant<'_>) -> TokenStream {
    let name = value_name(input, variant);
    let values = variant
        .fields
        .iter()
        .map(|field| static_ref(input, field, &field.this));
    if variant.fields.is_empty() {
        quote!(__f.write_str(#name))
    } else if variant.is_tuple {
        quote!(__f.debug_tuple(#name)#(.field(&#values))*.finish())
    } else {
        let names = variant.fields.iter().map(Field::name);
        quote!(__f.debug_struct(#name)#(.field(#names, &#values))*.finish())
    }
}
