//! Generates the implementations of the traits of a pytree or module.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::spanned::Spanned;
use syn::{DeriveInput, Path};

use crate::axes;
use crate::errors::Errors;
use crate::fallback;
use crate::input::{Field, Input, Kind, Macro, Variant};
use crate::kinds;
use crate::paths::{Entry, located};

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
        part(&read),
        axes::named(&read),
        match macro_ {
            Macro::Module => module(&read),
            Macro::Pytree | Macro::Static => container(&read),
        },
    ];
    in_scope(&read, &quote!(#checks #(#implementations)*))
}

/// Puts generated code into its own scope. The scope imports the trait `Fallback`, which the generated checks of field
/// types need.
pub(crate) fn in_scope(input: &Input<'_>, code: &TokenStream) -> TokenStream {
    let root = &input.root;
    quote! {
        #[allow(clippy::all, clippy::pedantic, clippy::nursery, reason = "generated code")]
        #[allow(deprecated, unused_imports, unused_qualifications, reason = "generated code")]
        const _: () = {
            use #root::field::Fallback as _;
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
    // If a bound does not hold, rustc points at the field only if it cannot see that a derive wrote the trait. So give
    // the trait the span of the item.
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
                // This type identifies the item. It is the same for all type arguments.
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
        let kind = match input.macro_ {
            Macro::Module => {
                let kind = field_kind(input, field, true);
                quote!(::core::option::Option::Some(#kind))
            }
            Macro::Pytree | Macro::Static => quote!(::core::option::Option::None),
        };
        let axes = if let Some(axes) = &field.axes {
            let pattern = axes.pattern(root, &field.name());
            quote!(::core::option::Option::Some(&#pattern))
        } else {
            quote!(::core::option::Option::None)
        };
        quote!(#root::shape::Field { name: #name, kind: #kind, axes: #axes })
    });
    let statics = variant.statics().map(Field::name);
    quote! {
        #root::shape::NodeShape {
            kind: #root::shape::NodeKind::#family,
            name: #name,
            fields: &[#(#fields),*],
            statics: &[#(#statics),*],
            identity: ::core::any::TypeId::of::<__Definition>,
            type_name: ::core::any::type_name::<Self>,
        }
    }
}

/// Returns the kind of a field. If `checked` is true and the collection does not fit the attribute, the evaluation of
/// the kind panics, and the error is at the collection. Only one evaluation of each kind is checked, so that one
/// mistake causes one error.
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
    let arms = input
        .variants
        .iter()
        .enumerate()
        .map(|(position, variant)| {
            let pattern = variant.pattern();
            let visit = visit(input, position, variant);
            quote!(#pattern => { #visit })
        });
    let visit = match_self(input, arms);
    let unflatten = unflatten(input);
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
        },
    )
}

/// Generates a match over the variants of `self`. For an enum without variants, the match has no arms.
pub(crate) fn match_self(
    input: &Input<'_>,
    arms: impl Iterator<Item = TokenStream>,
) -> TokenStream {
    if input.variants.is_empty() {
        return quote!(match *self {});
    }
    quote!(match self { #(#arms)* })
}

/// Generates the comparison of `self` with `__other`, which is true if both are the same variant and all fields are
/// equal.
pub(crate) fn match_pair(input: &Input<'_>, equal: impl Fn(&Field) -> TokenStream) -> TokenStream {
    let arms = input.variants.iter().map(|variant| {
        let (pattern, other) = (variant.pattern(), variant.other_pattern());
        let equal = variant.fields.iter().map(&equal);
        quote!((#pattern, #other) => true #(&& #equal)*,)
    });
    let otherwise = (input.variants.len() != 1).then(|| quote!(_ => false,));
    quote!(match (self, __other) { #(#arms)* #otherwise })
}

fn visit(input: &Input<'_>, position: usize, variant: &Variant<'_>) -> TokenStream {
    let root = &input.root;
    let shape = shape_of(input, position);
    let arity = variant.children().count();
    let statics = variant.statics().map(|field| {
        let value = static_ref(input, field);
        quote!(__visitor.aux(#value);)
    });
    let children = variant.children().map(|field| {
        let (variable, ty) = (&field.variable, &field.ty);
        if field.mentions.parameters {
            quote!(<#ty as #root::Pytree>::visit(#variable, __visitor);)
        } else {
            quote!(#root::field::Probe::<#ty>::visit(#variable, __visitor);)
        }
    });
    quote! {
        __visitor.enter(#shape, #arity);
        #(#statics)*
        #(#children)*
        __visitor.exit();
    }
}

/// Generates the `StaticRef` of a static field from the variable that holds the field.
pub(crate) fn static_ref(input: &Input<'_>, field: &Field) -> TokenStream {
    static_ref_of(input, field, &field.variable)
}

/// Generates the `StaticRef` of a static field from the variable `variable`.
pub(crate) fn static_ref_of(
    input: &Input<'_>,
    field: &Field,
    variable: &syn::Ident,
) -> TokenStream {
    let root = &input.root;
    let ty = &field.ty;
    if field.mentions.parameters {
        return quote!(#root::StaticRef::new(#variable));
    }
    quote! {
        #root::field::as_static([
            #root::field::Probe::<#ty>::by_value(#variable),
            #root::field::Probe::<#ty>::by_debug(#variable),
        ])
    }
}

fn unflatten(input: &Input<'_>) -> TokenStream {
    let root = &input.root;
    if !input.is_enum {
        return input
            .variants
            .iter()
            .map(|variant| build(input, 0, variant))
            .collect();
    }
    let variants = input
        .variants
        .iter()
        .enumerate()
        .map(|(position, variant)| {
            let shape = shape_of(input, position);
            let build = build(input, position, variant);
            quote! {
                if __source.is_next(#shape) {
                    return { #build };
                }
            }
        });
    quote! {
        #(#variants)*
        ::core::result::Result::Err(#root::Unflattener::wrong_node(__source, ::core::any::type_name::<Self>()))
    }
}

fn build(input: &Input<'_>, position: usize, variant: &Variant<'_>) -> TokenStream {
    let root = &input.root;
    let shape = shape_of(input, position);
    let arity = variant.children().count();
    let built = variant.pattern();
    let statics = variant.statics().map(|field| {
        let (variable, ty) = (&field.variable, &field.ty);
        if field.mentions.parameters {
            quote!(let #variable = __source.aux::<#ty>()?;)
        } else {
            quote! {
                let #variable = match #root::field::Probe::<#ty>::unflatten_by_value(__source) {
                    ::core::option::Option::Some(__value) => __value?,
                    ::core::option::Option::None => #root::field::Probe::<#ty>::unflatten_static(__source)?,
                };
            }
        }
    });
    let children = variant.children().map(|field| {
        let (variable, ty) = (&field.variable, &field.ty);
        if field.mentions.parameters {
            quote!(let #variable = <#ty as #root::Pytree>::unflatten(__source)?;)
        } else {
            quote!(let #variable = #root::field::Probe::<#ty>::unflatten(__source)?;)
        }
    });
    quote! {
        __source.enter_fixed(#shape, #arity)?;
        #(#statics)*
        #(#children)*
        ::core::result::Result::Ok(#root::Unflattener::exit(__source, #built))
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

/// Generates the implementation of `PytreeOf<__L>`: if all leaves of each child are `__L`, all leaves of the item are
/// `__L`. So there is a bound for each child. A child whose type mentions the item has no bound, because such a bound
/// would recurse without end.
fn part(input: &Input<'_>) -> TokenStream {
    let root = &input.root;
    let parameters = quote!(__L: #root::Leaf + ::core::clone::Clone,);
    let bounds: TokenStream = input
        .children()
        .filter(|field| !field.mentions.itself)
        .map(|field| {
            let ty = &field.ty;
            let quantified = quantifier(field);
            let bound = located(quote!(#root::PytreeOf<__L>), field.span);
            quote!(#quantified #ty: #bound,)
        })
        .collect();
    let of = implementation(
        input,
        &parameters,
        &quote!(#root::PytreeOf<__L>),
        &bounds,
        &walks(input),
    );
    let select = implementation(
        input,
        &parameters,
        &quote!(#root::SelectPart<__L>),
        &bounds,
        &quote! {
            type Part = #root::Partition<Self, __L>;
            fn select_part(
                __tree: #root::Tree<__L>,
            ) -> ::core::result::Result<Self::Part, #root::TreeError> {
                #root::select_partition(__tree)
            }
        },
    );
    quote!(#of #select)
}

/// Generates the functions that walk over leaves of one type, field by field. A recursive item uses the default
/// functions, because these count the depth of the recursion.
fn walks(input: &Input<'_>) -> TokenStream {
    if input.children().any(|field| field.mentions.itself) {
        return TokenStream::new();
    }
    let root = &input.root;
    let of = |field: &Field| {
        let ty = &field.ty;
        quote!(<#ty as #root::PytreeOf<__L>>)
    };
    let visits = input.variants.iter().map(|variant| {
        let pattern = variant.pattern();
        let children = variant.children().map(|field| {
            let (of, variable) = (of(field), &field.variable);
            quote!(#of::each_leaf(#variable, __visit);)
        });
        quote!(#pattern => { #(#children)* })
    });
    let maps = input.variants.iter().map(|variant| {
        let built = variant.pattern();
        let fields = variant.fields.iter().map(|field| {
            let (variable, ty) = (&field.variable, &field.ty);
            let value = match field.kind {
                Kind::Static if field.mentions.parameters => {
                    quote!(::core::clone::Clone::clone(#variable))
                }
                Kind::Static => quote!(#root::field::Probe::<#ty>::clone_static(#variable)),
                _ => {
                    let of = of(field);
                    quote!(#of::map_leaves(#variable, __function))
                }
            };
            quote!(let #variable = #value;)
        });
        quote!(#built => { #(#fields)* #built })
    });
    let visit = match_self(input, visits);
    let pair = match_pair(input, |field| {
        let (of, left, right) = (of(field), &field.variable, field.other());
        if field.is_static() {
            let (left, right) = (
                static_ref(input, field),
                static_ref_of(input, field, &right),
            );
            return quote!(#left == #right);
        }
        quote!(#of::each_pair(#left, #right, __visit))
    });
    let map = match_self(input, maps);
    quote! {
        #[inline]
        #[allow(unused_variables, reason = "an item may have no children")]
        fn each_leaf<'__a, __F: ::core::ops::FnMut(&'__a __L)>(&'__a self, __visit: &mut __F) {
            #visit
        }
        #[inline]
        #[allow(unused_variables, reason = "an item may have no children")]
        fn each_pair<'__a, __F: ::core::ops::FnMut(&'__a __L, &'__a __L)>(
            &'__a self,
            __other: &'__a Self,
            __visit: &mut __F,
        ) -> bool {
            #pair
        }
        #[inline]
        #[allow(unused_variables, reason = "an item may have no children")]
        fn map_leaves<__F: ::core::ops::FnMut(&__L) -> __L>(&self, __function: &mut __F) -> Self {
            #map
        }
    }
}

fn module(input: &Input<'_>) -> TokenStream {
    let root = &input.root;
    let registry_of = |variant: &Variant<'_>| {
        let entries = variant.fields.iter().map(|field| {
            let name = field.name();
            let kind = field_kind(input, field, false);
            quote!((#name, #kind))
        });
        quote!(&[#(#entries),*])
    };
    let none = TokenStream::new();
    let (constant, value) = if input.is_enum {
        let arms = input.variants.iter().map(|variant| {
            let path = variant.path();
            let registry = registry_of(variant);
            quote!(#path { .. } => #root::Registry::Borrowed(const { #registry }),)
        });
        (quote!(&[]), match_self(input, arms))
    } else {
        let constant = input.variants.iter().map(registry_of).collect();
        let borrowed = quote!(#root::Registry::Borrowed(<Self as #root::ModuleType>::REGISTRY));
        (constant, borrowed)
    };
    let registry = quote!(&'static [(&'static str, #root::FieldKind)]);
    let implement = |trait_: TokenStream, body: TokenStream| {
        implementation(input, &none, &trait_, &none, &body)
    };
    let implementations = [
        implement(quote!(#root::field::ModuleField), TokenStream::new()),
        implement(quote!(#root::field::HoldsArrays), TokenStream::new()),
        implement(
            quote!(#root::Module),
            quote!(fn registry(&self) -> #root::Registry<'_> { #value }),
        ),
        implement(
            quote!(#root::ModuleType),
            quote!(const REGISTRY: #registry = #constant;),
        ),
    ];
    quote!(#(#implementations)*)
}

/// Generates the implementations of a plain container, which depend on its children. For example, the container is a
/// module if all its children are modules.
fn container(input: &Input<'_>) -> TokenStream {
    let root = &input.root;
    let none = TokenStream::new();
    let kinds = [quote!(ModuleField), quote!(ParamField), quote!(StateField)];
    let implementations = kinds.iter().map(|kind| {
        let bounds = input
            .children()
            .filter(|field| !field.mentions.itself)
            .map(|field| {
                let ty = &field.ty;
                let quantified = quantifier(field);
                quote!(#quantified #ty: #root::field::#kind,)
            })
            .collect();
        implementation(input, &none, &quote!(#root::field::#kind), &bounds, &none)
    });
    let holds = implementation(
        input,
        &none,
        &quote!(#root::field::HoldsArrays),
        &none,
        &none,
    );
    quote!(#(#implementations)* #holds)
}
