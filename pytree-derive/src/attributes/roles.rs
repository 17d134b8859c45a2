//! Parses the roles of axes: `roles(input, output)`, or `roles = function`.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser as _};
use syn::punctuated::Punctuated;
use syn::{Ident, Path, Token, parenthesized, token};

use crate::paths::Root;

/// The roles by their names in an attribute, each with its variant of `AxisRole`.
pub(super) const ROLES: [(&str, &str); 8] = [
    ("input", "Input"),
    ("output", "Output"),
    ("input_head", "InputHead"),
    ("output_head", "OutputHead"),
    ("kernel", "Kernel"),
    ("item", "Item"),
    ("batch", "Batch"),
    ("feature", "Feature"),
];

/// The roles of the axes of a field, as the user wrote them.
pub(crate) enum RolesText {
    Listed(Vec<Ident>),
    Computed(Path),
}

impl RolesText {
    /// Returns whether the next tokens are the roles of axes.
    pub(super) fn is_next(input: ParseStream<'_>) -> bool {
        let ahead = input.fork();
        let is_roles = ahead
            .call(Ident::parse_any)
            .is_ok_and(|word| word == "roles");
        is_roles && (ahead.peek(token::Paren) || ahead.peek(Token![=]))
    }

    /// Parses the roles of axes, if they are next. If they are wrong, skips all other tokens, so that only one error is
    /// reported.
    pub(super) fn read(input: ParseStream<'_>) -> syn::Result<Option<syn::Result<Self>>> {
        if !Self::is_next(input) {
            return Ok(None);
        }
        let roles = Self::parse(input);
        if roles.is_err() {
            input.parse::<TokenStream>()?;
        }
        Ok(Some(roles))
    }

    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        input.call(Ident::parse_any)?;
        if input.parse::<Option<Token![=]>>()?.is_some() {
            return input.call(Path::parse_mod_style).map(Self::Computed);
        }
        let content;
        parenthesized!(content in input);
        // All tokens are taken first: syn reports tokens that remain in parentheses instead of the mistake.
        let inside: TokenStream = content.parse()?;
        let list = |input: ParseStream<'_>| {
            Punctuated::<Ident, Token![,]>::parse_terminated_with(input, Ident::parse_any)
        };
        let roles = list.parse2(inside)?;
        Ok(Self::Listed(roles.into_iter().collect()))
    }

    /// Generates the roles for a pattern of `pytree-core`. Names that are unknown are left out, because they are
    /// reported.
    pub(crate) fn pattern(&self, root: &Root) -> TokenStream {
        match self {
            Self::Computed(function) => quote!(#root::axes::Roles::Computed(#function)),
            Self::Listed(roles) => {
                let roles = roles.iter().filter_map(|role| {
                    let variant = Ident::new(variant(role)?, role.span());
                    Some(quote!(#root::axes::AxisRole::#variant))
                });
                quote!(#root::axes::Roles::Listed(&[#(#roles),*]))
            }
        }
    }

    /// Returns the roles as rustdoc shows them.
    pub(crate) fn displayed(&self) -> String {
        match self {
            Self::Computed(function) => format!(
                "computed by `{}`",
                function.to_token_stream().to_string().replace(' ', "")
            ),
            Self::Listed(roles) => {
                let roles: Vec<String> = roles.iter().map(ToString::to_string).collect();
                format!("`{}`", roles.join(", "))
            }
        }
    }
}

pub(super) fn variant(role: &Ident) -> Option<&'static str> {
    let mut roles = ROLES.iter();
    roles
        .find(|(name, _)| role == name)
        .map(|(_, variant)| *variant)
}
