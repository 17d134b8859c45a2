//! Generates the traits of a pytree whose leaves have one type: `PytreeOf` and `SelectPart`.

use proc_macro2::TokenStream;
use quote::quote;

use super::parts::{implementation, match_pair, match_self, quantifier, static_ref};
use crate::attributes::kind::Kind;
use crate::input::{Field, Input};
use crate::paths::located;

/// Generates the implementation of `PytreeOf<__L>`: if all leaves of each child are `__L`, all leaves of the item are
/// `__L`. So there is a bound for each child. A child whose type mentions the item has no bound, because such a bound
/// would recurse without end.
pub(super) fn part(input: &Input<'_>) -> TokenStream {
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
    let visit = match_self(input, |_, variant| {
        let children = variant.children().map(|field| {
            let (of, this) = (of(field), &field.this);
            quote!(#of::each_leaf(#this, __visit);)
        });
        quote!(#(#children)*)
    });
    let pair = match_pair(input, |field| {
        let (left, right) = (&field.this, &field.other);
        if field.is_static() {
            let [left, right] = [left, right].map(|value| static_ref(input, field, value));
            return quote!(#left == #right);
        }
        let of = of(field);
        quote!(#of::each_pair(#left, #right, __visit))
    });
    let map = match_self(input, |_, variant| {
        variant.with(|field| {
            let (this, ty) = (&field.this, &field.ty);
            match field.kind {
                Kind::Static if field.mentions.parameters => {
                    quote!(::core::clone::Clone::clone(#this))
                }
                Kind::Static => quote!(#root::field::Probe::<#ty>::clone_static(#this)),
                _ => {
                    let of = of(field);
                    quote!(#of::map_leaves(#this, __function))
                }
            }
        })
    });
    let plain = input.children().map(|field| {
        let of = of(field);
        quote!(&& #of::__is_plain())
    });
    quote! {
        #[inline]
        fn __is_plain() -> ::core::primitive::bool {
            true #(#plain)*
        }
        #[inline]
        fn each_leaf<'__a, __F: ::core::ops::FnMut(&'__a __L)>(&'__a self, __visit: &mut __F) {
            #visit
        }
        #[inline]
        fn each_pair<'__a, __F: ::core::ops::FnMut(&'__a __L, &'__a __L)>(
            &'__a self,
            __other: &'__a Self,
            __visit: &mut __F,
        ) -> ::core::primitive::bool {
            #pair
        }
        #[inline]
        fn map_leaves<__F: ::core::ops::FnMut(&__L) -> __L>(&self, __function: &mut __F) -> Self {
            #map
        }
    }
}
