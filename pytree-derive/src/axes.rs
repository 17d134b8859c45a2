//! Generates `NamedAxes`: compares the fields of a value with their named axes, for the methods with `#[shapes]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::Ident;
use syn::ext::IdentExt;

use crate::expand::parts::{implementation, match_self};
use crate::input::{Field, Input, Variant};
use crate::shape_language::{ShapeText, Use, encoded};
use crate::types::is_integer;

/// Generates the implementation of `NamedAxes`. Also generates an implementation of `BindsAxis` for each name that
/// stands for a length in methods.
pub(crate) fn named(input: &Input<'_>) -> TokenStream {
    let root = &input.root;
    let none = TokenStream::new();
    let parameters: Vec<_> = constants(input).collect();
    let numbers = parameters.iter().map(|parameter| {
        let name = parameter.unraw().to_string();
        quote!(#root::axes::Scope::number(__scope, #name, #parameter);)
    });
    let fields = match_self(input, |position, variant| bind(input, position, variant));
    let bind = implementation(
        input,
        &none,
        &quote!(#root::axes::NamedAxes),
        &none,
        &quote! {
            fn bind_axes(&self, __scope: &mut #root::axes::Scope) {
                #(#numbers)*
                #fields
            }
        },
    );
    let lines = documentation(input);
    let mut names: Vec<String> = parameters
        .iter()
        .map(|parameter| parameter.unraw().to_string())
        .collect();
    for field in input.fields() {
        if is_number(field) {
            names.push(field.name());
        }
        let axes = field.axes.iter().flat_map(ShapeText::names);
        names.extend(
            axes.filter(|name| name.used == Use::Axis)
                .map(|name| name.key),
        );
    }
    names.sort();
    names.dedup();
    let binds = names.iter().map(|name| {
        let name = encoded(name);
        implementation(
            input,
            &none,
            &quote!(#root::axes::BindsAxis<#name>),
            &none,
            &none,
        )
    });
    quote!(#(#[doc = #lines])* #bind #(#binds)*)
}

/// Iterates over the integer const generics. In a shape, the name of a const generic stands for a length: the value of
/// the const generic.
pub(crate) fn constants<'a>(input: &'a Input<'_>) -> impl Iterator<Item = &'a Ident> {
    let parameters = input.generics.const_params();
    let integers = parameters.filter(|parameter| is_integer(&parameter.ty));
    integers.map(|parameter| &parameter.ident)
}

/// Returns whether the field is static and an integer. In a shape, the name of such a field stands for a length: the
/// value of the field.
fn is_number(field: &Field) -> bool {
    field.is_static() && is_integer(&field.ty)
}

/// Generates the comparison of the fields of a variant with the patterns of the node shape.
fn bind(input: &Input<'_>, position: usize, variant: &Variant<'_>) -> TokenStream {
    let root = &input.root;
    let numbers = variant.fields.iter().filter(|field| is_number(field));
    let numbers = numbers.map(|field| {
        let (name, this) = (field.name(), &field.this);
        quote!(#root::axes::Scope::number(__scope, #name, *#this);)
    });
    let shape = quote!(<Self as #root::field::NodeShapes>::SHAPES[#position]);
    let children = variant.children().enumerate();
    let compared = children.filter(|(_, field)| field.axes.is_some());
    let compared = compared.map(|(child, field)| {
        let this = &field.this;
        quote!(#root::axes::Scope::value(__scope, const { #shape.axes_of(#child) }, #this);)
    });
    quote!(#(#numbers)* #(#compared)*)
}

/// Returns the lines of documentation that list the axes of the fields. Rustdoc shows these lines on the page of the
/// type.
fn documentation(input: &Input<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for field in input.fields() {
        if let Some(axes) = &field.axes {
            let roles = axes.roles.as_ref();
            let roles = roles.map(|roles| format!(", roles {}", roles.displayed()));
            lines.push(format!(
                " - `{}`: `{}`{}",
                field.name(),
                axes.displayed(),
                roles.unwrap_or_default()
            ));
        }
    }
    if !lines.is_empty() {
        lines.insert(0, " The named axes of the fields:".to_owned());
        lines.insert(1, String::new());
    }
    lines
}
