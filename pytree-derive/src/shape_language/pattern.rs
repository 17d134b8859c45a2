//! Generates the patterns of `pytree-core` from parsed shapes.

use proc_macro2::{Span, TokenStream};
use quote::quote;

use super::{Axis, Element, Rest, ShapeText, Step, Sum, Word};
use crate::paths::Root;

impl ShapeText {
    /// Returns the pattern as a constant of `pytree-core`.
    pub(crate) fn pattern(&self, root: &Root, label: &str) -> TokenStream {
        let axes = quote!(#root::axes);
        let text = &self.text;
        let element = match &self.element {
            Element::Any => quote!(Any),
            Element::Is(dtype) => {
                let dtype = ident(&format!("{dtype:?}"));
                quote!(Is(#root::ElementType::#dtype))
            }
            Element::Family(family) => {
                let family = ident(family);
                quote!(#family)
            }
            Element::Named(Word { name, .. }) => quote!(Named(#name)),
            Element::Bounded(Word { name, .. }, family) => {
                let family = ident(family);
                quote!(Bounded(#name, &#axes::ElementPattern::#family))
            }
        };
        let list = |list: &[Axis]| {
            let list = list.iter().map(|axis| axis.pattern(&axes));
            quote!(&[#(#list),*])
        };
        let (before, after) = (list(&self.before), list(&self.after));
        let rest = match &self.rest {
            None => quote!(::core::option::Option::None),
            Some(Rest::Any) => quote!(::core::option::Option::Some(#axes::Rest::Any)),
            Some(Rest::Named(Word { name, .. })) => {
                quote!(::core::option::Option::Some(#axes::Rest::Named(#name)))
            }
        };
        let roles = match &self.roles {
            None => quote!(::core::option::Option::None),
            Some(roles) => {
                let roles = roles.pattern(root);
                quote!(::core::option::Option::Some(#roles))
            }
        };
        quote! {
            #axes::ShapePattern {
                label: #label,
                text: #text,
                element: #axes::ElementPattern::#element,
                before: #before,
                rest: #rest,
                after: #after,
                roles: #roles,
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
