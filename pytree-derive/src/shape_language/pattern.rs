//! Generates the patterns of `pytree-core` from parsed shapes.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};

use super::text::{Axis, Element, Rest, ShapeText, Step, Sum, Word};
use crate::paths::Root;

impl ShapeText {
    /// Returns the pattern as a constant of `pytree-core`.
    pub(crate) fn pattern(&self, root: &Root, label: &str) -> TokenStream {
        let axes = quote!(#root::axes);
        let text = &self.text;
        let element = match &self.element {
            Element::Any => None,
            Element::Is(dtype) => {
                let dtype = ident(&format!("{dtype:?}"));
                Some(quote!(Is(#root::ElementType::#dtype)))
            }
            Element::Family(family) => Some(ident(family).into_token_stream()),
            Element::Named(Word { name, .. }) => Some(quote!(Named(#name))),
            Element::Bounded(Word { name, .. }, family) => {
                let family = ident(family);
                Some(quote!(Bounded(#name, &#axes::ElementPattern::#family)))
            }
        };
        let element = element.map(|element| quote!(element: #axes::ElementPattern::#element,));
        let [before, after] =
            [("before", &self.before), ("after", &self.after)].map(|(part, list)| {
                let (part, list) = (ident(part), list.iter().map(|axis| axis.pattern(&axes)));
                (list.len() > 0).then(|| quote!(#part: &[#(#list),*],))
            });
        let rest = self.rest.as_ref().map(|rest| {
            let rest = match rest {
                Rest::Any => quote!(Any),
                Rest::Named(Word { name, .. }) => quote!(Named(#name)),
            };
            quote!(rest: ::core::option::Option::Some(#axes::Rest::#rest),)
        });
        let roles = self.roles.as_ref().map(|roles| {
            let roles = roles.pattern(root);
            quote!(roles: ::core::option::Option::Some(#roles),)
        });
        quote! {
            #axes::ShapePattern {
                #element #before #rest #after #roles
                ..#axes::ShapePattern::new(#label, #text)
            }
        }
    }
}

impl Axis {
    fn pattern(&self, axes: &TokenStream) -> TokenStream {
        match self {
            Self::Any => quote!(#axes::AxisPattern::Any),
            Self::Length(length) => quote!(#axes::AxisPattern::Length(#length)),
            Self::Named(Word { name, .. }) => quote!(#axes::AxisPattern::Named(#name)),
            Self::Broadcast(Word { name, .. }) => quote!(#axes::AxisPattern::Broadcast(#name)),
            Self::Computed(Sum { text, steps }) => {
                let steps = steps.iter().map(|step| match step {
                    Step::Number(number) => quote!(#axes::Step::Number(#number)),
                    Step::Name(Word { name, .. }) => quote!(#axes::Step::Name(#name)),
                    Step::Apply(operator) => {
                        let operator = ident(match operator {
                            '+' => "Add",
                            '-' => "Subtract",
                            '*' => "Multiply",
                            _ => "Divide",
                        });
                        quote!(#axes::Step::Apply(#axes::Operator::#operator))
                    }
                });
                quote! {
                    #axes::AxisPattern::Computed(&#axes::Expression { text: #text, steps: &[#(#steps),*] })
                }
            }
        }
    }
}

fn ident(name: &str) -> syn::Ident {
    syn::Ident::new(name, Span::call_site())
}
