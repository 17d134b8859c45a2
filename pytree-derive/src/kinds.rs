//! Checks that the type of each field fits its kind.
//!
//! If the type has no parameters, the check is generated next to the item. There is a trait for each possible mistake,
//! and the use of the trait compiles only if the mistake was not made. If a type inside the field's type causes the
//! mistake, the message names that type. A type with parameters is known only at each use of the item, so its check is
//! a bound of the implementations.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::Type;

use crate::attributes::kind::{Kind, Macro};
use crate::input::{Field, Input};
use crate::paths::located;
use crate::types::{Held, held, is_function};

/// Generates the checks of the types of all fields.
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
    let attribute = attribute(input, field);
    let held = held(&field.ty);
    let is_closure = held.iter().any(|held| form(held) == "BoxedClosure");
    let types = held.iter().enumerate().map(|(position, held)| {
        let (ty, form, parent) = (held.ty, form(held), held.parent.unwrap_or(0));
        let names = mistakes(attribute, form, position, is_closure);
        let names = names.map(|name| format_ident!("{name}"));
        let form = format_ident!("{form}");
        quote!(#position #form #parent #ty [#(#names)*])
    });
    let (attribute, count) = (format_ident!("{attribute}"), held.len());
    quote!(#root::check_field! { #attribute #count: #(#types),* })
}

/// Returns the name of the attribute of a field, as the library has it in `field::check::Attribute`.
fn attribute(input: &Input<'_>, field: &Field) -> &'static str {
    match (&field.kind, input.macro_) {
        (Kind::Child, Macro::Pytree) => "Pytree",
        (Kind::Child, _) => "Module",
        (Kind::Param(_), _) => "Param",
        (Kind::State(_), _) => "State",
        (Kind::Static, Macro::Static) => "StaticType",
        (Kind::Static, _) => "Static",
    }
}

/// Returns what the tokens of a type show, as the library has it in `field::check::Form`.
fn form(held: &Held<'_>) -> &'static str {
    match (held.ty, held.object()) {
        (Type::TraitObject(_), _) => "Object",
        (Type::FnPtr(_), _) => "FunctionPointer",
        (_, Some(object)) if is_function(object) => "BoxedClosure",
        (_, Some(_)) => "BoxedObject",
        (_, None) => "Plain",
    }
}

/// Returns the mistakes whose message may name the type at a position: those of the attribute for the type of the field, and
/// those of the form.
fn mistakes(
    attribute: &str,
    form: &str,
    position: usize,
    is_closure: bool,
) -> impl Iterator<Item = &'static str> {
    let of_attribute: &[_] = match attribute {
        _ if position > 0 => &[],
        "Module" => &[
            "ArrayNeedsKind",
            "NumberNeedsKind",
            "LeafNeedsKind",
            "IntegerNeedsKind",
            "StaticNeedsKind",
        ],
        "Pytree" => &["ChildNotPytree"],
        "Param" => &["ParamOfModule", "ParamNotFloat", "ParamNotLeaf"],
        "State" => &["StateOfModule", "StateOfSize", "StateNotLeaf"],
        "Static" => &["StaticOfModule", "StaticOfArrays"],
        _ => &["StaticOfModule", "StaticTypeOfArrays"],
    };
    let of_form: &[_] = match (attribute, form) {
        ("Static" | "StaticType", _) if position > 0 => &[],
        ("Static" | "StaticType", _) if is_closure => &["FieldOfClosure"],
        ("Static" | "StaticType", _) => &["StaticNotComparable"],
        ("Module", "FunctionPointer") if position > 0 => &["StaticNeedsKind"],
        (_, "Object" | "FunctionPointer") => &[],
        (_, "BoxedClosure") => &["FieldOfClosure"],
        (_, "BoxedObject") => &["ObjectNeedsAttribute"],
        ("Module", _) => &[
            "CountedNeedsShared",
            "CellNeedsRef",
            "FieldMixesKinds",
            "TypeNeedsDerive",
        ],
        _ => &["CountedNeedsShared", "CellNeedsRef"],
    };
    of_attribute.iter().chain(of_form).copied()
}

/// Generates a function that checks the type of a field. The check is in a function if the field's type mentions its
/// generic item, because a bound on such a type in the implementations would recurse without end.
fn check_in_function(input: &Input<'_>, field: &Field) -> TokenStream {
    let bound = bound(input, field);
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

/// Returns the trait that the type of a field must implement.
fn bound(input: &Input<'_>, field: &Field) -> TokenStream {
    let root = &input.root;
    match (&field.kind, input.macro_) {
        (Kind::Static, _) => quote!(#root::StaticValue),
        (Kind::Child, Macro::Pytree) => quote!(#root::Pytree),
        (Kind::Child, _) => quote!(#root::field::ModuleField),
        (Kind::Param(_), _) => quote!(#root::field::ParamField),
        (Kind::State(_), _) => quote!(#root::field::StateField),
    }
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
        .map(|field| {
            let bound = located(bound(input, field), field.span);
            let ty = &field.ty;
            quote!(#ty: #bound,)
        });
    quote!(#(#parameters: 'static,)* #(#fields)*)
}
