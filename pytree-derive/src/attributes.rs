//! The attributes of fields and items.

use proc_macro2::Span;
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Attribute, Ident, Meta, Path, Token};

use crate::errors::{Errors, did_you_mean};
use crate::input::{Kind, Macro};

/// An attribute that gives a field its kind, as it is written.
pub(crate) struct KindAttribute<'a> {
    pub(crate) attribute: &'a Attribute,
    pub(crate) kind: Kind,
}

impl KindAttribute<'_> {
    /// The attribute as the user knows it.
    pub(crate) fn name(&self) -> String {
        match &self.kind {
            Kind::Child => String::new(),
            Kind::Param => "#[param]".to_owned(),
            Kind::State(None) => "#[state]".to_owned(),
            Kind::State(Some(path)) => {
                let path = path.to_token_stream().to_string().replace(' ', "");
                format!("#[state({path})]")
            }
            Kind::Static => format!("#[{}]", text_of(&self.attribute.meta)),
        }
    }
}

fn text_of(meta: &Meta) -> String {
    meta.to_token_stream()
        .to_string()
        .replace(" (", "(")
        .replace("( ", "(")
        .replace(" )", ")")
}

/// The name of one of our attributes.
fn our_name(attribute: &Attribute) -> Option<&'static str> {
    let ident = attribute.path().get_ident()?.unraw();
    ["param", "state", "static", "module", "pytree"]
        .into_iter()
        .find(|name| ident == name)
}

/// What the attributes of a field say.
#[derive(Default)]
pub(crate) struct FieldAttributes<'a> {
    /// Those that give it a kind; there should be one at most.
    pub(crate) kinds: Vec<KindAttribute<'a>>,
    /// Whether its type leads back to the item by way of another.
    pub(crate) is_recursive: bool,
}

/// Reads the attributes of a field.
pub(crate) fn of_field<'a>(
    attributes: &'a [Attribute],
    errors: &mut Errors,
) -> FieldAttributes<'a> {
    let mut read = FieldAttributes::default();
    for attribute in attributes {
        let kind = match our_name(attribute) {
            Some("param") => without_argument(attribute, Kind::Param, errors),
            Some("state") => state(attribute, errors),
            Some("static") => without_argument(attribute, Kind::Static, errors),
            Some(name) => {
                let kind = arguments_of_field(attribute, name, &mut read.is_recursive, errors);
                kind.then_some(Kind::Static)
            }
            None => None,
        };
        read.kinds
            .extend(kind.map(|kind| KindAttribute { attribute, kind }));
    }
    read
}

/// `#[param]` and `#[r#static]` take no argument.
fn without_argument(attribute: &Attribute, kind: Kind, errors: &mut Errors) -> Option<Kind> {
    if matches!(attribute.meta, Meta::Path(_)) {
        return Some(kind);
    }
    let name = attribute.path().to_token_stream();
    let mend = match kind {
        Kind::Param => "; a collection is named by `#[state(Collection)]`",
        _ => "",
    };
    errors.push(
        &attribute.meta,
        format!("`#[{name}]` takes no argument: write `#[{name}]`{mend}"),
    );
    None
}

/// `#[state]` or `#[state(Collection)]`.
fn state(attribute: &Attribute, errors: &mut Errors) -> Option<Kind> {
    match &attribute.meta {
        Meta::Path(_) => Some(Kind::State(None)),
        Meta::NameValue(meta) => {
            errors.push(
                meta,
                "expected a collection in parentheses: write `#[state(Collection)]`",
            );
            None
        }
        Meta::List(list) if list.tokens.is_empty() => {
            errors.push(
                list,
                "expected the name of a collection: write `#[state(Collection)]`, or `#[state]` for the collection `State`",
            );
            None
        }
        Meta::List(list) => {
            let path = syn::parse2(list.tokens.clone()).ok();
            if path.is_none() {
                errors.push(
                    &list.tokens,
                    "expected one collection, a type such as `BatchStat`: write `#[state(BatchStat)]`",
                );
            }
            path.map(|path| Kind::State(Some(path)))
        }
    }
}

/// One argument of `#[module(…)]` or `#[pytree(…)]`.
enum Argument {
    Static,
    Recursive,
    Crate(Path, Span),
    Unknown(Ident),
}

fn arguments(attribute: &Attribute) -> syn::Result<Vec<Argument>> {
    if matches!(attribute.meta, Meta::Path(_)) {
        return Ok(Vec::new());
    }
    let parse = |input: ParseStream<'_>| {
        let mut arguments = Vec::new();
        while !input.is_empty() {
            arguments.push(argument(input)?);
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(arguments)
    };
    attribute.parse_args_with(parse)
}

fn argument(input: ParseStream<'_>) -> syn::Result<Argument> {
    let word = input.call(Ident::parse_any)?;
    if word.unraw() == "static" {
        return Ok(Argument::Static);
    }
    if word == "recursive" {
        return Ok(Argument::Recursive);
    }
    if word == "crate" {
        input.parse::<Token![=]>().map_err(|_| {
            syn::Error::new(
                word.span(),
                "expected a path: write `crate = path::to::pytree`",
            )
        })?;
        let path = input.call(Path::parse_mod_style).map_err(|error| {
            syn::Error::new(
                error.span(),
                "expected a path, without quotes: write `crate = path::to::pytree`",
            )
        })?;
        return Ok(Argument::Crate(path, word.span()));
    }
    // What belongs to an unknown word is skipped, so that it is one error.
    while !input.is_empty() && !input.peek(Token![,]) {
        input.parse::<proc_macro2::TokenTree>()?;
    }
    Ok(Argument::Unknown(word))
}

/// `#[module(static)]` and `#[module(recursive)]` on a field, or the same of `pytree`: whether it is static.
fn arguments_of_field(
    attribute: &Attribute,
    name: &str,
    is_recursive: &mut bool,
    errors: &mut Errors,
) -> bool {
    let takes = format!("a field takes `#[{name}(static)]` or `#[{name}(recursive)]`");
    let arguments = arguments(attribute).unwrap_or_default();
    if arguments.is_empty() {
        errors.push(&attribute.meta, format!("expected an argument: {takes}"));
    }
    let mut is_static = false;
    for argument in arguments {
        match argument {
            Argument::Static => is_static = true,
            Argument::Recursive => *is_recursive = true,
            Argument::Crate(_, span) => errors.add(syn::Error::new(
                span,
                format!("`crate` belongs on the item: write `#[{name}(crate = …)]` above it"),
            )),
            Argument::Unknown(word) => {
                let hint = match word.to_string().as_str() {
                    "param" | "state" => format!("; write `#[{word}]` on the field"),
                    text => did_you_mean(text, &["static", "recursive"]),
                };
                errors.push(&word, format!("unknown argument `{word}`: {takes}{hint}"));
            }
        }
    }
    is_static
}

/// A variant takes no attribute: kinds belong to its fields.
pub(crate) fn of_variant(attributes: &[Attribute], errors: &mut Errors) {
    for attribute in attributes
        .iter()
        .filter(|attribute| our_name(attribute).is_some())
    {
        errors.push(
            &attribute.meta,
            format!(
                "`#[{}]` belongs on a field, not on the variant",
                text_of(&attribute.meta)
            ),
        );
    }
}

/// Reads the attributes of an item: the path to the crate, if it is given.
pub(crate) fn of_item(
    attributes: &[Attribute],
    macro_: Macro,
    errors: &mut Errors,
) -> Option<Path> {
    let mut renamed = None;
    for attribute in attributes {
        match our_name(attribute) {
            Some(name @ ("module" | "pytree")) => {
                item_arguments(attribute, name, &mut renamed, errors);
            }
            Some(name) => errors.push(
                &attribute.meta,
                format!(
                    "`#[{}]` belongs on a field, not on the item{}",
                    attribute.path().to_token_stream(),
                    if name == "static" && macro_ == Macro::Module {
                        "; to let the whole type be static, derive `Static` instead of `Module`"
                    } else {
                        ""
                    }
                ),
            ),
            None => {}
        }
    }
    renamed
}

fn item_arguments(
    attribute: &Attribute,
    name: &str,
    renamed: &mut Option<Path>,
    errors: &mut Errors,
) {
    let arguments = match arguments(attribute) {
        Ok(arguments) => arguments,
        Err(error) => return errors.add(error),
    };
    for argument in arguments {
        match argument {
            Argument::Crate(path, span) if renamed.is_some() => errors.add(syn::Error::new(
                span,
                format!(
                    "`crate` is given twice; remove `crate = {}`",
                    path.to_token_stream()
                ),
            )),
            Argument::Crate(path, _) => *renamed = Some(path),
            Argument::Static | Argument::Recursive => errors.push(
                &attribute.meta,
                format!(
                    "`#[{}]` belongs on a field, not on the item",
                    text_of(&attribute.meta)
                ),
            ),
            Argument::Unknown(word) => {
                let hint = did_you_mean(&word.to_string(), &["crate"]);
                errors.push(
                    &word,
                    format!(
                        "unknown argument `{word}`: an item takes `#[{name}(crate = path)]`{hint}"
                    ),
                );
            }
        }
    }
}

/// Reads the arguments of `#[module_object(…)]`: the path to the crate, if it is given.
pub(crate) fn of_module_object(
    arguments: proc_macro2::TokenStream,
    errors: &mut Errors,
) -> Option<Path> {
    if arguments.is_empty() {
        return None;
    }
    match argument.parse2(quote!(#arguments)) {
        Ok(Argument::Crate(path, _)) => Some(path),
        Ok(_) => {
            errors.push(
                arguments,
                "unknown argument: write `#[module_object]` or `#[module_object(crate = path)]`",
            );
            None
        }
        Err(error) => {
            errors.add(error);
            None
        }
    }
}
