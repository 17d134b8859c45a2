//! `#[derive(Collection)]`: a unit struct that names a collection of states or parameters.

use proc_macro2::TokenStream;
use quote::quote;
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Fields};

use crate::attributes;
use crate::attributes::kind::Macro;
use crate::errors::Errors;
use crate::paths::{Entry, Root, located};

/// Expands `#[derive(Collection)]`.
pub(crate) fn expand(input: &DeriveInput, entry: Entry) -> TokenStream {
    let mut errors = Errors::default();
    let renamed = attributes::of_item(&input.attrs, Macro::Static, &mut errors);
    let parent = attributes::parent(&input.attrs, &mut errors);
    let ident = &input.ident;
    let is_unit = matches!(&input.data, Data::Struct(data) if matches!(data.fields, Fields::Unit));
    if !is_unit || !input.generics.params.is_empty() {
        errors.push(
            ident,
            format!("a collection must be a unit struct: write `struct {ident};`"),
        );
    }
    let errors = errors.into_tokens();
    let root = Root::new(entry, renamed.as_ref());
    let name = syn::ext::IdentExt::unraw(ident).to_string();
    let (generics, arguments, where_clause) = input.generics.split_for_impl();
    let kind = match &parent {
        None => quote!(#root::LeafKind::state::<Self>()),
        Some(parent) => located(
            quote!(#root::LeafKind::below::<#parent, Self>()),
            parent.span(),
        ),
    };
    // Implement the trait even after an error, so that the places that use the collection cause no further errors.
    quote! {
        #errors
        #[automatically_derived]
        impl #generics #root::Collection for #ident #arguments #where_clause {
            const NAME: &'static ::core::primitive::str = #name;
            const KIND: #root::LeafKind = #kind;
        }
    }
}
