//! Checks that the type of each field fits its kind.
//!
//! If the type has no parameters, the check is generated next to the item: for each possible mistake there is a trait,
//! which the type implements unless the mistake was made. A type with parameters is known only at each use of the item,
//! so its check is a bound of the implementations.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::Type;

use crate::input::{Field, Input, Kind, Macro};
use crate::types::held_types;

/// Generates the checks of all fields.
pub(crate) fn checks(input: &Input<'_>) -> TokenStream {
    input.fields().map(|field| check(input, field)).collect()
}

fn check(input: &Input<'_>, field: &Field) -> TokenStream {
    if field.mentions.parameters {
        return if field.mentions.itself {
            check_in_function(input, field)
        } else {
            TokenStream::new()
        };
    }
    let root = &input.root;
    let ty = &field.ty;
    let mistakes = mistakes(input, field).into_iter().map(|(name, condition)| {
        let name = format_ident!("{name}");
        quote!(<#ty as #root::field::#name<{ #condition }>>::CHECK)
    });
    quote! {
        const _: &[()] = {
            type __Probe = #root::field::Probe<#ty>;
            &[#(#mistakes),*]
        };
    }
}

/// Generates a function that contains the check, for a field of a recursive generic item, whose type cannot be in a
/// bound of the implementations.
fn check_in_function(input: &Input<'_>, field: &Field) -> TokenStream {
    let Some(bound) = bound(input, field) else {
        return TokenStream::new();
    };
    let (generics, _, where_clause) = input.generics.split_for_impl();
    let predicates = predicates(input);
    let given = where_clause
        .into_iter()
        .flat_map(|clause| &clause.predicates);
    let ty = &field.ty;
    quote! {
        const _: () = {
            fn __is<__T: #bound>() {}
            fn __check #generics () where #(#given,)* #predicates {
                __is::<#ty>();
            }
        };
    }
}

/// Returns the mistakes that are possible for a field of this kind, each with the condition under which it was made.
fn mistakes(input: &Input<'_>, field: &Field) -> Vec<(&'static str, TokenStream)> {
    let is_module = quote!(__Probe::IS_MODULE);
    match &field.kind {
        Kind::Child if input.macro_ == Macro::Pytree => {
            vec![("ChildNotPytree", quote!(!__Probe::IS_PYTREE))]
        }
        Kind::Child => vec![
            (
                "ArrayNeedsKind",
                quote!(!#is_module && __Probe::IS_PARAM && __Probe::HOLDS_ARRAYS),
            ),
            (
                "NumberNeedsKind",
                quote!(!#is_module && __Probe::IS_PARAM && !__Probe::HOLDS_ARRAYS),
            ),
            (
                "LeafNeedsKind",
                quote!(!#is_module && !__Probe::IS_PARAM && __Probe::IS_STATE && __Probe::HOLDS_ARRAYS),
            ),
            (
                "IntegerNeedsKind",
                quote!(!#is_module && !__Probe::IS_PARAM && __Probe::IS_STATE && !__Probe::HOLDS_ARRAYS),
            ),
            (
                "StaticNeedsKind",
                quote!(!#is_module && !__Probe::IS_PARAM && !__Probe::IS_STATE && __Probe::IS_VALUE),
            ),
            (
                "OtherNeedsKind",
                quote!(!#is_module && !__Probe::IS_PARAM && !__Probe::IS_STATE && !__Probe::IS_VALUE),
            ),
        ],
        Kind::Param => vec![
            ("ParamOfModule", quote!(#is_module && !__Probe::IS_PARAM)),
            (
                "ParamNotFloat",
                quote!(!#is_module && !__Probe::IS_PARAM && __Probe::IS_STATE),
            ),
            (
                "ParamNotLeaf",
                quote!(!#is_module && !__Probe::IS_PARAM && !__Probe::IS_STATE),
            ),
        ],
        Kind::State(_) => vec![
            ("StateOfModule", quote!(#is_module && !__Probe::IS_STATE)),
            ("StateNotLeaf", quote!(!#is_module && !__Probe::IS_STATE)),
        ],
        Kind::Static => static_mistakes(input, &field.ty),
    }
}

fn static_mistakes(input: &Input<'_>, ty: &Type) -> Vec<(&'static str, TokenStream)> {
    let root = &input.root;
    let held = held_types(ty)
        .into_iter()
        .map(|held| quote!(#root::field::Probe::<#held>::HOLDS_ARRAYS));
    let holds = quote!((#(#held)||*));
    let is_value = quote!(__Probe::IS_VALUE);
    let of_arrays = match input.macro_ {
        Macro::Static => "StaticTypeOfArrays",
        Macro::Module | Macro::Pytree => "StaticOfArrays",
    };
    vec![
        (
            "StaticOfModule",
            quote!(!#is_value && __Probe::IS_MODULE && #holds),
        ),
        (
            of_arrays,
            quote!(!#is_value && !__Probe::IS_MODULE && #holds),
        ),
        (
            "StaticNotComparable",
            quote!(!#is_value && !#holds && !__Probe::IS_DEBUG),
        ),
    ]
}

/// Returns the trait that the type of a field must implement.
fn bound(input: &Input<'_>, field: &Field) -> Option<TokenStream> {
    let root = &input.root;
    Some(match (&field.kind, input.macro_) {
        (Kind::Static, _) => quote!(#root::StaticValue),
        (Kind::Child, Macro::Pytree) => quote!(#root::Pytree),
        (Kind::Child, Macro::Module) => quote!(#root::field::ModuleField),
        (Kind::Child, Macro::Static) => return None,
        (Kind::Param, _) => quote!(#root::field::ParamField),
        (Kind::State(_), _) => quote!(#root::field::StateField),
    })
}

/// Returns the bounds of every implementation: type parameters are `'static`, and each field type that mentions
/// parameters fits the kind of its field.
pub(crate) fn predicates(input: &Input<'_>) -> TokenStream {
    let parameters = input
        .generics
        .type_params()
        .map(|parameter| &parameter.ident);
    let fields = input
        .fields()
        .filter(|field| field.mentions.parameters && !field.mentions.itself)
        .filter_map(|field| {
            let bound = bound(input, field)?;
            let ty = &field.ty;
            Some(quote!(#ty: #bound,))
        });
    quote!(#(#parameters: 'static,)* #(#fields)*)
}
