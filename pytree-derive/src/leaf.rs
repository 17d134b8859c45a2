//! `#[derive(Leaf)]`: a type that is a leaf, whatever it has inside.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::DeriveInput;

use crate::attributes;
use crate::check;
use crate::errors::Errors;
use crate::input::Macro;
use crate::paths::{Entry, Root};

/// Expands the derive.
pub(crate) fn expand(input: &DeriveInput, entry: Entry) -> TokenStream {
    let mut errors = Errors::default();
    let renamed = attributes::of_item(&input.attrs, Macro::Static, &mut errors);
    check::lifetimes(&input.generics, &mut errors);
    if let Some(errors) = errors.into_tokens() {
        return errors;
    }
    let root = Root::new(entry, renamed.as_ref());
    let ident = &input.ident;
    let (_, arguments, where_clause) = input.generics.split_for_impl();
    let parameters = input.generics.params.iter().map(|parameter| {
        let mut parameter = parameter.clone();
        if let syn::GenericParam::Type(parameter) = &mut parameter {
            parameter.default = None;
            parameter.bounds.push(syn::parse_quote!('static));
        }
        if let syn::GenericParam::Const(parameter) = &mut parameter {
            parameter.default = None;
        }
        parameter.to_token_stream()
    });
    let parameters = quote!(#(#parameters),*);
    // A leaf of a generic type is one for the arguments with which it is what a leaf must be.
    let given = where_clause
        .into_iter()
        .flat_map(|clause| &clause.predicates);
    let needed = (!input.generics.params.is_empty()).then(|| {
        quote!(#ident #arguments: ::core::clone::Clone + ::core::fmt::Debug + ::core::marker::Send + ::core::marker::Sync)
    });
    let where_clause = quote!(where #(#given,)* #needed);
    quote! {
        const _: () = {
            use #root::field::Fallback as _;
            #[automatically_derived]
            impl<#parameters> #root::Leaf for #ident #arguments #where_clause {
                #root::__leaf_methods!(but_clone_boxed);
                // A type that is not `Clone` is reported by `PytreeOf`, and once is enough.
                fn clone_boxed(&self) -> ::std::boxed::Box<dyn #root::Leaf> {
                    #root::field::Probe::<Self>::clone_boxed(self)
                }
            }
            #root::__leaf_is_pytree!([#parameters] #ident #arguments #where_clause);
            #[automatically_derived]
            impl<#parameters> #root::field::StateField for #ident #arguments #where_clause {}
            #[automatically_derived]
            impl<#parameters> #root::field::HoldsArrays for #ident #arguments #where_clause {}
        };
    }
}
