//! Generates the implementations of the traits of a pytree or module.

mod leaves_of_one_type;
mod module;

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{DeriveInput, Path};

use crate::axes;
use crate::errors::Errors;
use crate::fallback;
use crate::input::{Field, Input, Kind, Macro, Variant};
use crate::kinds;
use crate::paths::{Entry, Root, located};

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

/// Puts generated code into its own scope. The scope imports the traits that
/// `Probe` needs.
pub(crate) fn in_scope(input: &Input<'_>, code: &TokenStream) -> TokenStream {
    let (root, import) = (&input.root, input.path.imported());
    quote! {
        #[allow(clippy::all, clippy::pedantic, clippy::nursery, reason = "generated code")]
        #[allow(deprecated, unused_imports, unused_qualifications, unused_variables, reason = "generated code")]
        const _: () = {
            #import
            use #root::field::{Fallback as _, StaticFallback as _};
            #code
        };
    }
}

/// Generates the implementation of the trait `trait_`. The implementation has the generic parameters and bounds of the
/// item, and also `parameters` and `bounds`.
pub(crate) fn implementation(
    input: &Input<'_>,
    parameters: &TokenStream,
    trait_: &TokenStream,
    bounds: &TokenStream,
    body: &TokenStream,
) -> TokenStream {
    let ident = input.ident;
    let (_, arguments, where_clause) = input.generics.split_for_impl();
    let own = own_parameters(input);
    let given = where_clause
        .into_iter()
        .flat_map(|clause| &clause.predicates);
    let predicates = kinds::predicates(input);
    // If a bound on the type of a field does not hold, rustc points at the field. But rustc does not do so if the name
    // of the trait has the span of the derive, so give the trait the span of the item.
    let trait_ = located(trait_.clone(), ident.span());
    quote! {
        #[automatically_derived]
        impl<#parameters #(#own),*> #trait_ for #ident #arguments
        where #(#given,)* #predicates #bounds
        {
            #body
        }
    }
}

/// Returns the generic parameters of the item with their bounds, but without their defaults.
fn own_parameters(input: &Input<'_>) -> impl Iterator<Item = TokenStream> {
    input.generics.params.iter().map(|parameter| {
        let mut parameter = parameter.clone();
        match &mut parameter {
            syn::GenericParam::Type(parameter) => parameter.default = None,
            syn::GenericParam::Const(parameter) => parameter.default = None,
            syn::GenericParam::Lifetime(_) => {}
        }
        parameter.to_token_stream()
    })
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

/// Returns the kind of a field. If `checked` is true, evaluating the kind panics at a collection that does not fit the
/// attribute. Each kind is checked in only one evaluation, so that one mistake causes one error.
fn field_kind(input: &Input<'_>, field: &Field, checked: bool) -> TokenStream {
    let root = &input.root;
    let in_collection = |check: TokenStream, collection: &Path| {
        let of = if checked { check } else { quote!(of) };
        let span = collection.span();
        located(quote!(#root::FieldKind::#of::<#collection>()), span)
    };
    match &field.kind {
        Kind::Child => quote!(#root::FieldKind::Module),
        Kind::Static => quote!(#root::FieldKind::Static),
        Kind::Param(None) => quote!(#root::FieldKind::Param),
        Kind::Param(Some(collection)) => in_collection(quote!(of_param), collection),
        Kind::State(None) => quote!(#root::FieldKind::of::<#root::kind::State>()),
        Kind::State(Some(collection)) => in_collection(quote!(of_state), collection),
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

/// Generates code for each variant of `self`. For an enum without variants, the match has no arms.
pub(crate) fn match_self(
    input: &Input<'_>,
    code: impl Fn(usize, &Variant<'_>) -> TokenStream,
) -> TokenStream {
    let variants = input.variants.iter().enumerate();
    let arms = variants.map(|(position, variant)| (variant, code(position, variant)));
    if !input.is_enum {
        return arms.map(|(_, code)| code).collect();
    }
    if arms.len() == 0 {
        return quote!(match *self {});
    }
    let arms = arms.map(|(variant, code)| {
        let pattern = variant.with(|field| field.this.clone());
        quote!(#pattern => { #code })
    });
    quote!(match self { #(#arms)* })
}

/// Generates the comparison of `self` with `__other`, which is true if both are the same variant and all fields are
/// equal.
pub(crate) fn match_pair(input: &Input<'_>, equal: impl Fn(&Field) -> TokenStream) -> TokenStream {
    let arms = input.variants.iter().map(|variant| {
        let equal = variant.fields.iter().map(&equal);
        let equal = quote!(true #(&& #equal)*);
        if !input.is_enum {
            return equal;
        }
        let [pattern, other] = [
            variant.with(|field| field.this.clone()),
            variant.with(|field| field.other.clone()),
        ];
        quote!((#pattern, #other) => #equal,)
    });
    if !input.is_enum {
        return arms.collect();
    }
    let otherwise = (input.variants.len() != 1).then(|| quote!(_ => false,));
    quote!(match (self, __other) { #(#arms)* #otherwise })
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

/// Generates the `StaticRef` of a static field from a reference to the field.
pub(crate) fn static_ref(input: &Input<'_>, field: &Field, value: &TokenStream) -> TokenStream {
    let root = &input.root;
    let ty = &field.ty;
    let value = if field.mentions.parameters {
        quote!(#root::StaticRef::new(#value))
    } else {
        quote!(#root::field::Probe::<#ty>::NEW.__as_static(#value))
    };
    if field.is_saved {
        return quote!(#value.__saved::<#ty>());
    }
    value
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

/// Returns a quantifier (`for<'a>`) for a bound on the type of a field. If the type has no parameters, rustc needs the
/// quantifier to accept a bound that does not hold. If the type has parameters, returns no tokens.
fn quantifier(field: &Field) -> TokenStream {
    if field.mentions.parameters {
        TokenStream::new()
    } else {
        quote!(for<'__a>)
    }
}
