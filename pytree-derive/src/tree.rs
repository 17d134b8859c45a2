//! The notation of dynamic trees: `tree!([(1, 2), {"a": None}])`.
//!
//! A procedural macro parses the tokens. Rules of `macro_rules!` would expand once for each token, and the compiler
//! limits the depth of such expansions. With the procedural macro, the length and depth of a tree are not limited, any
//! expression may be a key, and an error has the span of the mistake.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::parse::{ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Error, Expr, Ident, Result, Token, braced, bracketed, parenthesized};

/// A parsed tree: a leaf, a container or `None`.
enum Value {
    None,
    List(Vec<Value>),
    Tuple(Vec<Value>),
    Dict(Vec<(Expr, Value)>),
    Ordered(Vec<(Expr, Value)>),
    Named(Ident, Vec<(Ident, Value)>),
    Other(Expr),
}

/// Expands `[root] value`, where `root` is the path of the crate.
pub(crate) fn expand(input: TokenStream) -> TokenStream {
    let whole = |input: ParseStream<'_>| {
        let root;
        bracketed!(root in input);
        let root: TokenStream = root.parse()?;
        let value = value(input)?;
        if let Some(rest) = input.cursor().token_tree() {
            return Err(Error::new(
                rest.0.span(),
                "expected one tree, found several; write a list `[…]` or a tuple `(…)`",
            ));
        }
        Ok((root, value))
    };
    match whole.parse2(input) {
        Ok((root, value)) => value.expand(&root),
        Err(error) => error.to_compile_error(),
    }
}

fn ends(input: ParseStream<'_>) -> bool {
    input.is_empty() || input.peek(Token![,])
}

/// If the remaining input is an identifier and a group, returns the identifier, and the delimiter and content of the
/// group.
fn names_group(input: ParseStream<'_>) -> Option<(Ident, Delimiter, TokenStream)> {
    let ahead = input.fork();
    let name: Ident = ahead.parse().ok()?;
    match ahead.parse().ok()? {
        TokenTree::Group(group) if ends(&ahead) => Some((name, group.delimiter(), group.stream())),
        _ => None,
    }
}

/// If the remaining input is a single group, returns the delimiter of this group.
fn is_group(input: ParseStream<'_>) -> Option<Delimiter> {
    let ahead = input.fork();
    match ahead.parse().ok()? {
        TokenTree::Group(group) if ends(&ahead) => Some(group.delimiter()),
        _ => None,
    }
}

fn value(input: ParseStream<'_>) -> Result<Value> {
    if input.is_empty() {
        return Err(input.error(
            "expected a tree: a list `[…]`, a tuple `(…)`, a dictionary `{key: value}`, `ordered {key: value}`, a named tuple `Name(field = value)`, `None`, or a value that is a pytree",
        ));
    }
    let content;
    match is_group(input) {
        Some(Delimiter::Bracket) => {
            bracketed!(content in input);
            return Ok(Value::List(items(&content)?.into_iter().collect()));
        }
        Some(Delimiter::Parenthesis) => {
            parenthesized!(content in input);
            return Ok(Value::Tuple(items(&content)?.into_iter().collect()));
        }
        Some(Delimiter::Brace) => {
            braced!(content in input);
            return Ok(Value::Dict(entries(&content)?));
        }
        _ => {}
    }
    if let Some((name, delimiter, inside)) = names_group(input) {
        if name == "ordered" && delimiter == Delimiter::Brace {
            input.parse::<Ident>()?;
            braced!(content in input);
            return Ok(Value::Ordered(entries(&content)?));
        }
        if name == "ordered" && syn::parse2::<Expr>(inside.clone()).is_err() {
            return Err(Error::new(
                name.span(),
                "`ordered` applies only to a dictionary: write `ordered {key: value}`",
            ));
        }
        if delimiter == Delimiter::Parenthesis && begins_with_field.parse2(inside).is_ok() {
            input.parse::<Ident>()?;
            parenthesized!(content in input);
            return Ok(Value::Named(name, fields(&content)?));
        }
    }
    let ahead = input.fork();
    if ahead.parse::<Ident>().is_ok_and(|name| name == "None") && ends(&ahead) {
        input.parse::<Ident>()?;
        return Ok(Value::None);
    }
    input.parse().map(Value::Other)
}

fn items(content: ParseStream<'_>) -> Result<Punctuated<Value, Token![,]>> {
    content.parse_terminated(value, Token![,])
}

fn entries(content: ParseStream<'_>) -> Result<Vec<(Expr, Value)>> {
    let entry = |input: ParseStream<'_>| {
        let key: Expr = input.parse()?;
        if !input.peek(Token![:]) {
            return Err(Error::new_spanned(
                &key,
                "expected `key: value`; write a list `[…]` for values without keys, and put a text key in quotes",
            ));
        }
        input.parse::<Token![:]>()?;
        // Parentheses around a key would cause a warning in the generated call.
        let key = match key {
            Expr::Paren(inner) => *inner.expr,
            key => key,
        };
        Ok((key, value(input)?))
    };
    let entries: Punctuated<_, Token![,]> = content.parse_terminated(entry, Token![,])?;
    Ok(entries.into_iter().collect())
}

/// Parses `field =` at the beginning of the content of a named tuple. Returns an error for the arguments of a function
/// call.
fn begins_with_field(input: ParseStream<'_>) -> Result<()> {
    input.parse::<Ident>()?;
    input.parse::<Token![=]>()?;
    input.parse::<TokenStream>()?;
    Ok(())
}

fn fields(content: ParseStream<'_>) -> Result<Vec<(Ident, Value)>> {
    let field = |input: ParseStream<'_>| {
        let name: Ident = input.parse()?;
        input.parse::<Token![=]>()?;
        Ok((name, value(input)?))
    };
    let fields: Punctuated<_, Token![,]> = content.parse_terminated(field, Token![,])?;
    let fields: Vec<(Ident, Value)> = fields.into_iter().collect();
    for (position, (name, _)) in fields.iter().enumerate() {
        if fields[..position].iter().any(|(before, _)| before == name) {
            return Err(Error::new(
                name.span(),
                format!("a named tuple has two fields with the name `{name}`; rename one of them"),
            ));
        }
    }
    Ok(fields)
}

impl Value {
    fn expand(&self, root: &TokenStream) -> TokenStream {
        let tree = quote!(#root::Tree::<#root::AnyLeaf>);
        let vector = |items: Vec<TokenStream>| quote!(::std::vec::Vec::from([#(#items),*]));
        let all = |values: &[Self]| vector(values.iter().map(|value| value.expand(root)).collect());
        let keyed = |entries: &[(Expr, Self)]| {
            let entries = entries.iter().map(|(key, value)| {
                let value = value.expand(root);
                quote!((#root::StaticBox::new(#key), #value))
            });
            vector(entries.collect())
        };
        match self {
            Self::None => quote!(#tree::none()),
            Self::List(items) => {
                let items = all(items);
                quote!(#tree::list(#items))
            }
            Self::Tuple(items) => {
                let items = all(items);
                quote!(#tree::tuple(#items))
            }
            Self::Dict(entries) => {
                let entries = keyed(entries);
                quote!(#tree::dict_of_any(#entries))
            }
            Self::Ordered(entries) => {
                let entries = keyed(entries);
                quote!(#tree::ordered_dict_of_any(#entries))
            }
            Self::Named(name, fields) => {
                let fields = fields.iter().map(|(name, value)| {
                    let (name, value) = (text(name), value.expand(root));
                    quote!((#name, #value))
                });
                let (name, fields) = (text(name), vector(fields.collect()));
                quote! {
                    match #tree::named_tuple(#name, #fields) {
                        ::std::result::Result::Ok(tree) => tree,
                        ::std::result::Result::Err(error) => ::std::panic!("{error}"),
                    }
                }
            }
            Self::Other(value) => quote!(#tree::of(&(#value))),
        }
    }
}

/// Returns the name of an identifier as a string literal with the same span.
fn text(name: &Ident) -> TokenStream {
    syn::LitStr::new(&syn::ext::IdentExt::unraw(name).to_string(), name.span()).to_token_stream()
}
