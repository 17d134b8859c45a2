//! `#[derive(Leaf)]`: a type that is a leaf, regardless of its contents.

use proc_macro2::TokenStream;
use quote::quote;
use syn::DeriveInput;

use crate::attributes::kind::Macro;
use crate::check::Owner;
use crate::errors::Errors;
use crate::paths::{Entry, Root};
use crate::{attributes, fallback};

/// Expands `#[derive(Leaf)]`.
pub(crate) fn expand(input: &DeriveInput, entry: Entry) -> TokenStream {
    let mut errors = Errors::default();
    let renamed = attributes::of_item(&input.attrs, Macro::Static, &mut errors);
    let is_param = is_param(input, &mut errors);
    Owner::LEAF.lifetimes(&input.generics, &mut errors);
    // Implement the trait even after an error, so that uses of the leaf cause no further errors.
    let errors = errors.into_tokens();
    let root = Root::new(entry, renamed.as_ref());
    let ident = &input.ident;
    let (parameters, arguments, given) = fallback::parts(&input.generics);
    // A generic type is a leaf if, with its type arguments, it satisfies the bounds of the trait.
    let given = given.into_iter().flat_map(|clause| &clause.predicates);
    let needed = (!input.generics.params.is_empty()).then(|| {
        quote!(#ident #arguments: ::core::clone::Clone + ::core::fmt::Debug + ::core::marker::Send + ::core::marker::Sync)
    });
    let where_clause = quote!(where #(#given,)* #needed);
    let param = is_param.then(|| {
        quote! {
            #[automatically_derived]
            impl<#parameters> #root::field::ParamField for #ident #arguments #where_clause {}
        }
    });
    quote! {
        #errors
        const _: () = {
            use #root::field::Fallback as _;
            #[automatically_derived]
            impl<#parameters> #root::Leaf for #ident #arguments #where_clause {
                #root::__leaf_methods!(but_clone_boxed);
                // This call also compiles if the type is not `Clone`, because `PytreeOf` already reports such a type.
                fn clone_boxed(&self) -> ::std::boxed::Box<dyn #root::Leaf> {
                    #root::field::Probe::<Self>::clone_boxed(self)
                }
                fn as_array(&self) -> ::core::option::Option<&dyn #root::ArrayLeaf> {
                    #root::field::Probe::<Self>::as_array(self)
                }
            }
            #root::__leaf_is_pytree!([#parameters] #ident #arguments #where_clause);
            #[automatically_derived]
            impl<#parameters> #root::field::StateField for #ident #arguments #where_clause {}
            #[automatically_derived]
            impl<#parameters> #root::field::HoldsArrays for #ident #arguments #where_clause {}
            #param
        };
    }
}

/// Returns whether the item has the attribute `#[leaf(param)]`.
fn is_param(input: &DeriveInput, errors: &mut Errors) -> bool {
    let mut attributes = input
        .attrs
        .iter()
        .filter(|it| it.path().is_ident("leaf"))
        .peekable();
    let is_param = attributes.peek().is_some();
    for attribute in attributes {
        let known = attribute.parse_args::<syn::Ident>();
        if !known.is_ok_and(|argument| argument == "param") {
            let message = "write `#[leaf(param)]`, so that a field of this type may be `#[param]`";
            errors.push(&attribute.meta, message);
        }
    }
    is_param
}
