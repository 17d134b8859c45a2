//! Parses the attributes of fields, variants and items.

pub(crate) mod kind;
mod leaves;
pub(crate) mod roles;

use proc_macro2::Span;
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Attribute, Ident, LitStr, Meta, Path, Token, Type};

use self::leaves::{PARAM, STATE, axes, no_axes, of_leaves};
use crate::attributes::kind::{Kind, Macro};
use crate::attributes::roles::RolesText;
use crate::errors::{Errors, closest, did_you_mean};
use crate::shape_language::{NO_STACKED_AXIS, ShapeText};

/// An attribute that gives a field its kind, as the user wrote it.
pub(crate) struct KindAttribute<'a> {
    pub(crate) attribute: &'a Attribute,
    pub(crate) kind: Kind,
    /// The named axes, as in `#[param("in out")]`.
    pub(crate) axes: Option<ShapeText>,
}

impl KindAttribute<'_> {
    /// Returns the attribute as the user wrote it.
    pub(crate) fn name(&self) -> String {
        match &self.kind {
            Kind::Child => String::new(),
            Kind::Param(None) => "#[param]".to_owned(),
            Kind::Param(Some(path)) => format!("#[param({})]", text_of_path(path)),
            Kind::State(None) => "#[state]".to_owned(),
            Kind::State(Some(path)) => format!("#[state({})]", text_of_path(path)),
            Kind::Static => format!("#[{}]", text_of(&self.attribute.meta)),
        }
    }
}

fn text_of_path(path: &Path) -> String {
    path.to_token_stream().to_string().replace(' ', "")
}

fn text_of(meta: &Meta) -> String {
    meta.to_token_stream()
        .to_string()
        .replace(" (", "(")
        .replace("( ", "(")
        .replace(" )", ")")
}

/// Returns the name of an attribute that belongs to this library, or `None` for any other attribute.
fn our_name(attribute: &Attribute) -> Option<&'static str> {
    let ident = attribute.path().get_ident()?.unraw();
    ["param", "state", "static", "module", "pytree"]
        .into_iter()
        .find(|name| ident == name)
}

/// The attributes of a field.
#[derive(Default)]
pub(crate) struct FieldAttributes<'a> {
    /// The attributes that give the field a kind. More than one is an error.
    pub(crate) kinds: Vec<KindAttribute<'a>>,
    /// Whether the field is marked as `recursive`: its type contains the item indirectly.
    pub(crate) is_recursive: bool,
    /// Whether checkpoints contain the value of the field: `#[r#static(saved)]`.
    pub(crate) is_saved: bool,
    /// The named axes of a field without a kind, as in `#[pytree("batch in")]`.
    pub(crate) axes: Option<ShapeText>,
    /// The axes by which a module is stacked, as in `#[module(stacked = "expert")]`.
    pub(crate) stacked: Option<ShapeText>,
}

/// Parses the attributes of a field, and reports invalid attributes.
pub(crate) fn of_field<'a>(
    attributes: &'a [Attribute],
    errors: &mut Errors,
) -> FieldAttributes<'a> {
    let mut read = FieldAttributes::default();
    for attribute in attributes {
        let kind = match our_name(attribute) {
            Some("param") => of_leaves(attribute, &PARAM, errors),
            Some("state") => of_leaves(attribute, &STATE, errors),
            Some("static") => {
                read.is_saved = is_saved(attribute);
                of_static(attribute, read.is_saved, errors).map(no_axes)
            }
            Some(name) => {
                let is_static = arguments_of_field(attribute, name, &mut read, errors);
                is_static.then(|| no_axes(Kind::Static))
            }
            None => None,
        };
        read.kinds.extend(kind.map(|(kind, axes)| KindAttribute {
            attribute,
            kind,
            axes,
        }));
    }
    read
}

/// Returns whether the attribute is `#[r#static(saved)]`.
fn is_saved(attribute: &Attribute) -> bool {
    matches!(&attribute.meta, Meta::List(_))
        && (attribute.parse_args::<Ident>()).is_ok_and(|word| word == "saved")
}

/// Checks that the attribute `#[r#static]` has no argument but `saved`.
fn of_static(attribute: &Attribute, is_saved: bool, errors: &mut Errors) -> Option<Kind> {
    if is_saved || matches!(attribute.meta, Meta::Path(_)) {
        return Some(Kind::Static);
    }
    let name = attribute.path().to_token_stream();
    let message = format!("`#[{name}]` takes no argument: write `#[{name}]`");
    match &attribute.meta {
        Meta::List(list) if !list.tokens.is_empty() => errors.push(&list.tokens, message),
        meta => errors.push(meta, message),
    }
    None
}

/// An argument of `#[module(…)]` or `#[pytree(…)]`: a word with its span, or `crate = path`.
enum Argument {
    Axes(LitStr),
    Roles(syn::Result<RolesText>, Span),
    Static(Ident),
    Recursive(Ident),
    Stacked(Ident, syn::Result<ShapeText>),
    Crate(Path, Span),
    Unknown(Ident),
}

/// Parses the arguments of an attribute. `takes` describes the valid arguments for error messages.
fn arguments(attribute: &Attribute, takes: &str, errors: &mut Errors) -> Vec<Argument> {
    let parse = |input: ParseStream<'_>| {
        let mut arguments = Vec::new();
        while !input.is_empty() {
            arguments.push(argument(input, takes)?);
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(arguments)
    };
    match &attribute.meta {
        Meta::List(list) if !list.tokens.is_empty() => match attribute.parse_args_with(parse) {
            Ok(arguments) => return arguments,
            Err(error) => errors.add(error),
        },
        meta => errors.push(meta, format!("expected an argument: {takes}")),
    }
    Vec::new()
}

fn argument(input: ParseStream<'_>, takes: &str) -> syn::Result<Argument> {
    if input.peek(LitStr) {
        return input.parse().map(Argument::Axes);
    }
    let span = input.span();
    if let Some(roles) = RolesText::read(input)? {
        return Ok(Argument::Roles(roles, span));
    }
    let word = input
        .call(Ident::parse_any)
        .map_err(|error| syn::Error::new(error.span(), format!("expected an argument: {takes}")))?;
    if word.unraw() == "static" {
        return Ok(Argument::Static(word));
    }
    if word == "recursive" {
        return Ok(Argument::Recursive(word));
    }
    if word == "stacked" {
        let literal = input.parse::<Token![=]>().and_then(|_| input.parse());
        let literal: LitStr =
            literal.map_err(|error| syn::Error::new(error.span(), NO_STACKED_AXIS))?;
        return Ok(Argument::Stacked(word, ShapeText::parse_stacked(&literal)));
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
    // Skip the rest of an unknown argument, so that only one error is reported.
    while !input.is_empty() && !input.peek(Token![,]) {
        input.parse::<proc_macro2::TokenTree>()?;
    }
    Ok(Argument::Unknown(word))
}

/// Parses `#[module(static)]`, `#[module(recursive)]` and `#[module(stacked = "axis")]` on a field, or `#[pytree(static)]`,
/// `#[pytree(recursive)]` and `#[pytree("batch in")]`. Returns whether the field is static.
fn arguments_of_field(
    attribute: &Attribute,
    name: &str,
    read: &mut FieldAttributes<'_>,
    errors: &mut Errors,
) -> bool {
    let takes = match name {
        "module" => "write `#[module(static)]`, `#[module(recursive)]` or `#[module(stacked = \"axis\")]` on a field".to_owned(),
        _ => format!("write `#[{name}(static)]` or `#[{name}(recursive)]` on a field"),
    };
    let mut is_static = false;
    let (mut named, mut roles) = (None, None);
    for argument in arguments(attribute, &takes, errors) {
        match argument {
            Argument::Axes(literal) if name == "pytree" => named = axes(&literal, errors),
            Argument::Axes(literal) => errors.push(
                &literal,
                format!("{takes}, without quotes; named axes belong in `#[param(\"in out\")]` or `#[state(\"in out\")]`"),
            ),
            Argument::Roles(found, _) if name == "pytree" => roles = Some(found),
            Argument::Roles(_, span) => errors.add(syn::Error::new(
                span,
                format!("{takes}; roles belong in `#[param(\"in out\", roles(input, output))]`"),
            )),
            Argument::Static(word) => once(&mut is_static, &word, errors),
            Argument::Recursive(word) => once(&mut read.is_recursive, &word, errors),
            Argument::Stacked(word, axes) => {
                once(&mut read.stacked.is_some(), &word, errors);
                match axes {
                    Ok(axes) => read.stacked = Some(axes),
                    Err(error) => errors.add(error),
                }
            }
            Argument::Crate(_, span) => errors.add(syn::Error::new(
                span,
                format!("`crate` belongs on the type: write `#[{name}(crate = …)]` above the struct or enum"),
            )),
            Argument::Unknown(word) => {
                let words = ["static", "recursive", "stacked", "param", "state"];
                let hint = match closest(&word.to_string(), &words) {
                    Some(kind @ ("param" | "state")) => {
                        format!("; did you mean the attribute `#[{kind}]`?")
                    }
                    Some(argument) => format!("; did you mean `{argument}`?"),
                    None => String::new(),
                };
                errors.push(&word, format!("unknown argument `{word}`: {takes}{hint}"));
            }
        }
    }
    leaves::add_roles(named.as_mut(), roles, name, attribute, errors);
    read.axes = named.or(read.axes.take());
    is_static
}

/// Sets the flag `is_there` of an argument, and reports an error if the flag was already set.
fn once(is_there: &mut bool, word: &Ident, errors: &mut Errors) {
    if std::mem::replace(is_there, true) {
        errors.push(word, format!("`{word}` is written twice: remove one"));
    }
}

/// Reports attributes on a variant, because only fields have kinds.
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

/// Parses the attributes of an item. Returns the path of the crate, if the user wrote `crate = path`.
pub(crate) fn of_item(
    attributes: &[Attribute],
    macro_: Macro,
    errors: &mut Errors,
) -> Option<Path> {
    let mut renamed = None;
    for attribute in attributes {
        match our_name(attribute) {
            Some(name @ ("module" | "pytree")) => {
                item_arguments(attribute, name, macro_, &mut renamed, errors);
            }
            Some(name) => {
                let text = attribute.path().to_token_stream().to_string();
                errors.push(
                    &attribute.meta,
                    belongs_on_a_field(&text, name == "static", macro_),
                );
            }
            None => {}
        }
    }
    renamed
}

fn belongs_on_a_field(text: &str, is_static: bool, macro_: Macro) -> String {
    let fix = if is_static && macro_ == Macro::Module {
        "; to make the whole type static, derive `Static` instead of `Module`"
    } else {
        ""
    };
    format!("`#[{text}]` belongs on a field, not on the type{fix}")
}

fn item_arguments(
    attribute: &Attribute,
    name: &str,
    macro_: Macro,
    renamed: &mut Option<Path>,
    errors: &mut Errors,
) {
    let takes = format!("write `#[{name}(crate = path)]` on the struct or enum");
    for argument in arguments(attribute, &takes, errors) {
        match argument {
            Argument::Crate(path, span) if renamed.is_some() => errors.add(syn::Error::new(
                span,
                format!(
                    "`crate` is written twice: remove `crate = {}`",
                    text_of_path(&path)
                ),
            )),
            Argument::Crate(path, _) => *renamed = Some(path),
            Argument::Axes(literal) => errors.push(
                &literal,
                "named axes belong on a field: write `#[param(\"in out\")]` above it",
            ),
            Argument::Roles(_, span) => errors.add(syn::Error::new(
                span,
                "roles belong on a field: write `#[param(\"in out\", roles(input, output))]` above it",
            )),
            Argument::Static(word) => errors.push(
                &word,
                belongs_on_a_field(&format!("{name}({word})"), true, macro_),
            ),
            Argument::Recursive(word) | Argument::Stacked(word, _) => errors.push(
                &word,
                belongs_on_a_field(&format!("{name}({word})"), false, macro_),
            ),
            Argument::Unknown(word) => {
                let hint = did_you_mean(&word.to_string(), &["crate"]);
                errors.push(&word, format!("unknown argument `{word}`: {takes}{hint}"));
            }
        }
    }
}

/// Parses the attributes `#[collection(parent = Type)]` of a collection, and returns the parent, if there is one.
pub(crate) fn parent(attributes: &[Attribute], errors: &mut Errors) -> Option<Type> {
    let takes = "write `#[collection(parent = Param)]`";
    let parse = |input: ParseStream<'_>| {
        let word = input.call(Ident::parse_any)?;
        if word != "parent" {
            let hint = did_you_mean(&word.to_string(), &["parent"]);
            let message = format!("unknown argument `{word}`: {takes}{hint}");
            return Err(syn::Error::new(word.span(), message));
        }
        input.parse::<Token![=]>()?;
        let parent = input.parse::<Type>()?;
        input.parse::<Option<Token![,]>>()?;
        Ok(parent)
    };
    let mut found = None;
    for attribute in attributes {
        if !attribute.path().is_ident("collection") {
            continue;
        }
        let parent = match &attribute.meta {
            Meta::List(list) if !list.tokens.is_empty() => match attribute.parse_args_with(parse) {
                Ok(parent) => parent,
                Err(error) if error.to_string().contains(takes) => {
                    errors.add(error);
                    continue;
                }
                Err(error) => {
                    let message = format!("expected one parent: {takes}");
                    errors.add(syn::Error::new(error.span(), message));
                    continue;
                }
            },
            meta => {
                errors.push(meta, format!("expected a parent: {takes}"));
                continue;
            }
        };
        if found.is_some() {
            errors.push(&parent, "a collection has one parent: remove this one");
        }
        found = Some(parent);
    }
    found
}

/// Parses the arguments of `#[module_object(…)]`. Returns the path of the crate, if the user wrote `crate = path`.
pub(crate) fn of_module_object(
    arguments: proc_macro2::TokenStream,
    errors: &mut Errors,
) -> Option<Path> {
    if arguments.is_empty() {
        return None;
    }
    let takes = "write `#[module_object]` or `#[module_object(crate = path)]`";
    let parse = |input: ParseStream<'_>| argument(input, takes);
    match parse.parse2(arguments) {
        Ok(Argument::Crate(path, _)) => Some(path),
        Ok(Argument::Axes(literal)) => {
            errors.push(&literal, format!("unexpected text: {takes}"));
            None
        }
        Ok(Argument::Roles(_, span)) => {
            errors.add(syn::Error::new(span, format!("unexpected roles: {takes}")));
            None
        }
        Ok(
            Argument::Static(word)
            | Argument::Recursive(word)
            | Argument::Stacked(word, _)
            | Argument::Unknown(word),
        ) => {
            let hint = did_you_mean(&word.to_string(), &["crate"]);
            errors.push(&word, format!("unknown argument `{word}`: {takes}{hint}"));
            None
        }
        Err(error) => {
            errors.add(error);
            None
        }
    }
}
