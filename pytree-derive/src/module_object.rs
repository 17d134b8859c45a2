//! `#[module_object]`: makes `Box<dyn Trait>` a module.
//!
//! The trait gets a hidden supertrait, which is implemented for every module that implements the trait. The methods of
//! this supertrait clone and rebuild a box.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Ident, ItemTrait, TypeParamBound};

use crate::attributes;
use crate::errors::Errors;
use crate::paths::{Entry, Root};

/// Expands `#[module_object]`.
pub(crate) fn expand(arguments: TokenStream, item: &TokenStream, entry: Entry) -> TokenStream {
    let mut errors = Errors::default();
    let renamed = attributes::of_module_object(arguments, &mut errors);
    let Ok(mut item) = syn::parse2::<ItemTrait>(item.clone()) else {
        errors.push(
            item,
            "`#[module_object]` applies only to a trait: write it above `trait Layer { … }`",
        );
        let errors = errors.into_tokens();
        return quote!(#errors #item);
    };
    if !item.generics.params.is_empty() {
        errors.push(
            &item.generics,
            "a trait with `#[module_object]` cannot have generic parameters, because a treedef must name the type: remove the parameters",
        );
    }
    let errors = errors.into_tokens();
    if !item.generics.params.is_empty() {
        return quote!(#errors #item);
    }
    // Generate the implementations even after a wrong argument, so that only the argument is reported.
    let root = Root::new(entry, renamed.as_ref());
    let hidden = format_ident!("__{}Object", item.ident);
    item.supertraits.push(syn::parse_quote!(#hidden));
    if item.colon_token.is_none() {
        item.colon_token = Some(syn::token::Colon::default());
    }
    let supertrait = supertrait(&root, &item, &hidden);
    let implementations = implementations(&root, &item.ident);
    let debug = (!names_debug(&item)).then(|| debug(&root, &item.ident));
    quote! {
        #errors
        #item
        #supertrait
        #implementations
        #debug
    }
}

/// Generates the hidden supertrait and its blanket implementation.
fn supertrait(root: &Root, item: &ItemTrait, hidden: &Ident) -> TokenStream {
    let (ident, vis) = (&item.ident, &item.vis);
    let message = format!("`{{Self}}` cannot be a `Box<dyn {ident}>`");
    let label = format!("each type that implements `{ident}` must be a module");
    quote! {
        #[doc(hidden)]
        #[diagnostic::on_unimplemented(
            message = #message,
            label = #label,
            note = "write `#[derive(Module, Clone)]` on the type, which must also be `Send + Sync`"
        )]
        #vis trait #hidden: #root::Module + ::core::marker::Send + ::core::marker::Sync {
            fn __clone_boxed(&self) -> ::std::boxed::Box<dyn #ident>;
            fn __constructor(&self) -> &'static #root::object::Constructor<dyn #ident>;
        }
        #[diagnostic::do_not_recommend]
        #[allow(clippy::result_large_err, reason = "the library defines the error type")]
        impl<__T> #hidden for __T
        where
            __T: #ident + #root::Module + ::core::clone::Clone + ::core::marker::Send + ::core::marker::Sync,
        {
            fn __clone_boxed(&self) -> ::std::boxed::Box<dyn #ident> {
                ::std::boxed::Box::new(::core::clone::Clone::clone(self))
            }
            fn __constructor(&self) -> &'static #root::object::Constructor<dyn #ident> {
                const {
                    &#root::object::Constructor::new::<__T>(|source| {
                        let built = <__T as #root::Pytree>::unflatten(source)?;
                        ::core::result::Result::Ok(::std::boxed::Box::new(built))
                    })
                }
            }
        }
    }
}

/// Generates the implementations of a module for the box. The types of its leaves are known only at run time, so the
/// box implements `PytreeOf<L>` for every `L`, and flattening checks that each leaf is an `L`.
fn implementations(root: &Root, ident: &Ident) -> TokenStream {
    let boxed = quote!(::std::boxed::Box<dyn #ident>);
    quote! {
        const _: () = {
            #[automatically_derived]
            impl #root::Pytree for #boxed {
                fn visit<'__a>(&'__a self, visitor: &mut dyn #root::Visitor<'__a>) {
                    if visitor.enter(&#root::shape::OBJECT, 1) == #root::Visit::Descend {
                        visitor.aux(#root::StaticRef::new((**self).__constructor()));
                        #root::Pytree::visit(&**self, visitor);
                        visitor.exit();
                    }
                }
                fn unflatten(
                    source: &mut #root::Unflattener<'_>,
                ) -> ::core::result::Result<Self, #root::TreeError> {
                    source.enter_fixed(&#root::shape::OBJECT, 1)?;
                    let object = source.aux::<#root::object::Constructor<dyn #ident>>()?.build(source)?;
                    ::core::result::Result::Ok(source.exit(object))
                }
            }
            #[automatically_derived]
            impl #root::Module for #boxed {
                fn registry(&self) -> #root::Registry<'_> {
                    #root::Module::registry(&**self)
                }
            }
            #[automatically_derived]
            impl #root::field::ModuleField for #boxed {}
            #[automatically_derived]
            impl #root::field::HoldsArrays for dyn #ident {}
            #[automatically_derived]
            impl<__L: #root::Leaf + ::core::clone::Clone> #root::PytreeOf<__L> for #boxed {}
            #[automatically_derived]
            impl<__L: #root::Leaf + ::core::clone::Clone> #root::SelectPart<__L> for #boxed {
                type Part = #root::Partition<Self, __L>;
                fn select_part(
                    tree: #root::Tree<__L>,
                ) -> ::core::result::Result<Self::Part, #root::TreeError> {
                    #root::select_partition(tree)
                }
            }
            #[automatically_derived]
            impl ::core::clone::Clone for #boxed {
                fn clone(&self) -> Self {
                    (**self).__clone_boxed()
                }
            }
        };
    }
}

/// Returns whether the trait has `Debug` among its supertraits.
fn names_debug(item: &ItemTrait) -> bool {
    item.supertraits.iter().any(|bound| {
        matches!(bound, TypeParamBound::Trait(bound)
            if bound.path.segments.last().is_some_and(|last| last.ident == "Debug"))
    })
}

fn debug(root: &Root, ident: &Ident) -> TokenStream {
    quote! {
        #[automatically_derived]
        impl ::core::fmt::Debug for dyn #ident {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                #root::object::debug(self, f)
            }
        }
    }
}
