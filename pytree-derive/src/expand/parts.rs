//! The parts of generated code that the implementations of several traits have.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::Path;
use syn::spanned::Spanned;

use crate::attributes::kind::Kind;
use crate::input::{Field, Input, Variant};
use crate::kinds;
use crate::paths::located;

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

/// Returns the kind of a field. If `checked` is true, evaluating the kind panics at a collection that does not fit the
/// attribute. Each kind is checked in only one evaluation, so that one mistake causes one error.
pub(crate) fn field_kind(input: &Input<'_>, field: &Field, checked: bool) -> TokenStream {
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

/// Returns a quantifier (`for<'a>`) for a bound on the type of a field. If the type has no parameters, rustc needs the
/// quantifier to accept a bound that does not hold. If the type has parameters, returns no tokens.
pub(crate) fn quantifier(field: &Field) -> TokenStream {
    if field.mentions.parameters {
        TokenStream::new()
    } else {
        quote!(for<'__a>)
    }
}
