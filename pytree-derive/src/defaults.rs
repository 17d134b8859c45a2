//! `#[derive(Defaults)]`: implements `Default` for a struct of options, so that the default of an option is beside its
//! documentation.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Data, DeriveInput, Field};

/// Expands `#[derive(Defaults)]`.
pub(crate) fn expand(input: &DeriveInput) -> TokenStream {
    implementation(input).unwrap_or_else(|error| error.to_compile_error())
}

fn implementation(input: &DeriveInput) -> syn::Result<TokenStream> {
    let Data::Struct(data) = &input.data else {
        let message = "`Defaults` is for structs; derive `Default` for an enum";
        return Err(syn::Error::new_spanned(&input.ident, message));
    };
    let name = &input.ident;
    let members = data.fields.members();
    let values = data
        .fields
        .iter()
        .map(value)
        .collect::<Result<Vec<_>, _>>()?;
    Ok(quote! {
        impl ::core::default::Default for #name {
            fn default() -> Self {
                Self { #(#members: #values),* }
            }
        }
    })
}

/// Returns the value in the attribute of a field, or the default of its type.
fn value(field: &Field) -> syn::Result<TokenStream> {
    let mut attributes = field.attrs.iter();
    match attributes.find(|attribute| attribute.path().is_ident("default")) {
        Some(attribute) => Ok(attribute.parse_args::<syn::Expr>()?.into_token_stream()),
        None => Ok(quote!(::core::default::Default::default())),
    }
}
