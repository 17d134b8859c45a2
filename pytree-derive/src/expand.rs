//! Generates the implementations of the traits of a pytree or module.

mod leaves_of_one_type;
mod module;
pub(crate) mod parts;

use proc_macro2::TokenStream;
use quote::quote;
use syn::DeriveInput;
use syn::ext::IdentExt;

use self::parts::{field_kind, implementation, in_scope, match_self, static_ref};
use crate::attributes::kind::Macro;
use crate::errors::Errors;
use crate::input::{Field, Input, Variant};
use crate::paths::{Entry, Root};
use crate::{axes, fallback, kinds};

/// Expands `#[derive(Module)]` or `#[derive(Pytree)]`.
pub(crate) fn expand(input: &DeriveInput, macro_: Macro, entry: Entry) -> TokenStream {
    let mut errors = Errors::default();
    let read = Input::read(input, macro_, entry, &mut errors);
    if let Some(errors) = errors.into_tokens() {
        return fallback::pytree(&read, &errors);
    }
    let checks = kinds::checks(&read);
    let implementations = [
        shapes(&read),
        pytree(&read),
        leaves_of_one_type::part(&read),
        axes::named(&read),
        match macro_ {
            Macro::Module => module::module(&read),
            Macro::Pytree | Macro::Static => module::container(&read),
        },
    ];
    in_scope(&read, &quote!(#checks #(#implementations)*))
}

/// Generates the node shapes (type name, variant and fields) of all variants.
fn shapes(input: &Input<'_>) -> TokenStream {
    let root = &input.root;
    let shapes = input.variants.iter().map(|variant| shape(input, variant));
    implementation(
        input,
        &TokenStream::new(),
        &quote!(#root::field::NodeShapes),
        &TokenStream::new(),
        &quote! {
            const SHAPES: &'static [#root::shape::NodeShape] = {
                // This type identifies the item. The type is the same for all type arguments.
                enum __Definition {}
                &[#(#shapes),*]
            };
        },
    )
}

fn shape(input: &Input<'_>, variant: &Variant<'_>) -> TokenStream {
    let root = &input.root;
    let name = variant.name(input.ident);
    let family = if variant.is_tuple {
        quote!(TupleStruct)
    } else {
        quote!(Struct)
    };
    let fields = variant.children().map(|field| {
        let name = field.name();
        let new = match input.macro_ {
            Macro::Module => {
                let kind = field_kind(input, field, true);
                quote!(#root::shape::Field::new(#name, #kind))
            }
            Macro::Pytree | Macro::Static => quote!(#root::shape::Field::plain(#name)),
        };
        let Some(axes) = &field.axes else {
            return new;
        };
        let pattern = axes.pattern(root, &name);
        quote!(#root::shape::Field { axes: ::core::option::Option::Some(&#pattern), ..#new })
    });
    let statics = variant.statics().map(Field::name);
    let constants = axes::constants(input).map(|constant| {
        let name = constant.unraw().to_string();
        quote!((#name, #constant as ::core::primitive::i128))
    });
    quote! {
        #root::shape::NodeShape {
            kind: #root::shape::NodeKind::#family,
            name: #name,
            fields: &[#(#fields),*],
            statics: &[#(#statics),*],
            constants: &[#(#constants),*],
            identity: ::core::any::TypeId::of::<__Definition>,
            type_name: ::core::any::type_name::<Self>,
        }
    }
}

/// Returns the expression for the node shape of a variant.
fn shape_of(input: &Input<'_>, position: usize) -> TokenStream {
    let root = &input.root;
    quote!(const { &<Self as #root::field::NodeShapes>::SHAPES[#position] })
}

fn pytree(input: &Input<'_>) -> TokenStream {
    let root = &input.root;
    let visit = match_self(input, |position, variant| visit(input, position, variant));
    let unflatten = unflatten(input);
    let is_uniform = is_uniform(input);
    implementation(
        input,
        &TokenStream::new(),
        &quote!(#root::Pytree),
        &TokenStream::new(),
        &quote! {
            fn visit<'__a>(&'__a self, __visitor: &mut dyn #root::Visitor<'__a>) {
                #visit
            }
            fn unflatten(
                __source: &mut #root::Unflattener<'_>,
            ) -> ::core::result::Result<Self, #root::TreeError> {
                #unflatten
            }
            #is_uniform
        },
    )
}

/// Generates `__is_uniform` for a struct whose values may all have the same structure. A struct with static fields, an
/// enum and a recursive struct use the default function.
fn is_uniform(input: &Input<'_>) -> TokenStream {
    let mut fields = input.variants.iter().flat_map(|variant| &variant.fields);
    if input.is_enum || fields.any(|field| field.is_static() || field.mentions.itself) {
        return TokenStream::new();
    }
    let root = &input.root;
    let children = input.children().map(|field| {
        let of = pytree_of(root, field);
        quote!(&& #of::__is_uniform())
    });
    quote! {
        #[inline]
        fn __is_uniform() -> ::core::primitive::bool {
            true #(#children)*
        }
    }
}

fn visit(input: &Input<'_>, position: usize, variant: &Variant<'_>) -> TokenStream {
    let root = &input.root;
    let shape = shape_of(input, position);
    let arity = variant.children().count();
    let statics = variant.statics().map(|field| {
        let value = static_ref(input, field, &field.this);
        quote!(__visitor.aux(#value);)
    });
    let children = variant.children().map(|field| {
        let (this, of) = (&field.this, pytree_of(root, field));
        quote!(#of::visit(#this, __visitor);)
    });
    quote! {
        if __visitor.enter(#shape, #arity) == #root::Visit::Descend {
            #(#statics)*
            #(#children)*
            __visitor.exit();
        }
    }
}

/// Returns the path of the functions of `Pytree` for a child. If its type has no parameters, `Probe` has these functions, so
/// that a wrong type causes no second error.
fn pytree_of(root: &Root, field: &Field) -> TokenStream {
    let ty = &field.ty;
    if field.mentions.parameters {
        quote!(<#ty as #root::Pytree>)
    } else {
        quote!(#root::field::Probe::<#ty>)
    }
}

fn unflatten(input: &Input<'_>) -> TokenStream {
    let root = &input.root;
    let variants = input.variants.iter().enumerate();
    let variants = variants.map(|(position, variant)| {
        let build = build(input, position, variant);
        if !input.is_enum {
            return build;
        }
        let shape = shape_of(input, position);
        quote!(if __source.is_next(#shape) { return { #build }; })
    });
    let otherwise = input.is_enum.then(|| {
        quote!(::core::result::Result::Err(#root::Unflattener::wrong_node(__source, ::core::any::type_name::<Self>())))
    });
    quote!(#(#variants)* #otherwise)
}

fn build(input: &Input<'_>, position: usize, variant: &Variant<'_>) -> TokenStream {
    let root = &input.root;
    let shape = shape_of(input, position);
    let arity = variant.children().count();
    // Static fields come before children.
    let path = variant.path();
    let fields = variant.statics().chain(variant.children()).map(|field| {
        let (member, ty) = (&field.member, &field.ty);
        let value = match (field.is_static(), field.mentions.parameters) {
            (true, true) => quote!(__source.aux::<#ty>()),
            (true, false) => quote!(#root::field::Probe::<#ty>::NEW.__read_static(__source)),
            (false, _) => {
                let of = pytree_of(root, field);
                quote!(#of::unflatten(__source))
            }
        };
        quote!(#member: #value?)
    });
    quote! {
        __source.enter_fixed(#shape, #arity)?;
        let __built = #path { #(#fields),* };
        ::core::result::Result::Ok(#root::Unflattener::exit(__source, __built))
    }
}
