//! Generates the output for an item with errors: all messages, and empty implementations, so that uses of the item
//! cause no further errors.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Generics, WhereClause};

use crate::attributes::kind::Macro;
use crate::input::Input;

/// Returns the output of `#[derive(Module)]` and `#[derive(Pytree)]`.
pub(crate) fn pytree(input: &Input<'_>, errors: &TokenStream) -> TokenStream {
    let root = &input.root;
    let leaf = quote!(__L: #root::Leaf + ::core::clone::Clone,);
    let none = TokenStream::new();
    let module = match input.macro_ {
        Macro::Module => {
            let registry = quote!(&'static [(&'static ::core::primitive::str, #root::FieldKind)]);
            let module = stub(
                input,
                &none,
                &quote!(#root::Module),
                &quote!(fn registry(&self) -> #root::Registry<'_> { #root::Registry::Borrowed(&[]) }),
            );
            let module_type = stub(
                input,
                &none,
                &quote!(#root::ModuleType),
                &quote!(const REGISTRY: #registry = &[];),
            );
            quote!(#module #module_type)
        }
        Macro::Pytree | Macro::Static => TokenStream::new(),
    };
    let kinds = [quote!(ModuleField), quote!(ParamField), quote!(StateField)];
    let kinds = kinds
        .iter()
        .take(if input.macro_ == Macro::Module { 1 } else { 3 })
        .map(|kind| stub(input, &none, &quote!(#root::field::#kind), &none));
    let pytree = stub(
        input,
        &none,
        &quote!(#root::Pytree),
        &quote! {
            fn visit<'__a>(&'__a self, _: &mut dyn #root::Visitor<'__a>) {}
            fn unflatten(
                __source: &mut #root::Unflattener<'_>,
            ) -> ::core::result::Result<Self, #root::TreeError> {
                ::core::result::Result::Err(#root::Unflattener::wrong_node(__source, ""))
            }
        },
    );
    let of = stub(input, &leaf, &quote!(#root::PytreeOf<__L>), &none);
    let select = stub(
        input,
        &leaf,
        &quote!(#root::SelectPart<__L>),
        &quote! {
            type Part = #root::Partition<Self, __L>;
            fn select_part(
                __tree: #root::Tree<__L>,
            ) -> ::core::result::Result<Self::Part, #root::TreeError> {
                #root::select_partition(__tree)
            }
        },
    );
    let named = stub(
        input,
        &none,
        &quote!(#root::axes::NamedAxes),
        &quote!(fn bind_axes(&self, _: &mut #root::axes::Scope) {}),
    );
    let binds = stub(
        input,
        &quote!(const __NAME: ::core::primitive::u128,),
        &quote!(#root::axes::BindsAxis<__NAME>),
        &none,
    );
    let import = input.path.imported();
    quote! {
        #errors
        const _: () = { #import #pytree #of #select #(#kinds)* #module #named #binds };
    }
}

/// Generates an empty implementation of a trait. The implementation has no bounds on field types, because the errors
/// may be in these types.
pub(crate) fn stub(
    input: &Input<'_>,
    parameters: &TokenStream,
    trait_: &TokenStream,
    body: &TokenStream,
) -> TokenStream {
    let ident = input.ident;
    let (own, arguments, where_clause) = parts(input.generics);
    quote! {
        #[automatically_derived]
        impl<#parameters #own> #trait_ for #ident #arguments #where_clause { #body }
    }
}

/// Returns the parameters, the arguments and the where clause of an implementation, with every lifetime replaced by
/// `'static`, because a pytree owns its data.
pub(crate) fn parts(generics: &Generics) -> (TokenStream, TokenStream, Option<&WhereClause>) {
    let (mut own, mut arguments) = (TokenStream::new(), TokenStream::new());
    for parameter in &generics.params {
        match parameter {
            syn::GenericParam::Lifetime(_) => arguments.extend(quote!('static,)),
            syn::GenericParam::Type(parameter) => {
                let (ident, bounds) = (&parameter.ident, &parameter.bounds);
                arguments.extend(quote!(#ident,));
                own.extend(quote!(#ident: 'static + #bounds,));
            }
            syn::GenericParam::Const(parameter) => {
                let (ident, ty) = (&parameter.ident, &parameter.ty);
                arguments.extend(quote!(#ident,));
                own.extend(quote!(const #ident: #ty,));
            }
        }
    }
    let has_lifetimes = generics.lifetimes().next().is_some();
    let given = generics.where_clause.as_ref().filter(|_| !has_lifetimes);
    let arguments = (!arguments.is_empty()).then(|| quote!(<#arguments>));
    (own, quote!(#arguments), given)
}
