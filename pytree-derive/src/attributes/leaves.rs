//! Parses `#[param]` and `#[state]`, which may name a collection and the axes.

use syn::parse::ParseStream;
use syn::{Attribute, LitStr, Meta, Path, Token};

use super::{axes, no_axes};
use crate::errors::Errors;
use crate::input::Kind;
use crate::shape_language::ShapeText;

/// An attribute of leaves, which may name a collection and the axes.
pub(super) struct OfLeaves {
    name: &'static str,
    /// The collection that an attribute without an argument means.
    default: &'static str,
    /// An example of a collection.
    example: &'static str,
    kind: fn(Option<Path>) -> Kind,
}

pub(super) const PARAM: OfLeaves = OfLeaves {
    name: "param",
    default: "Param",
    example: "LoraParam",
    kind: Kind::Param,
};

pub(super) const STATE: OfLeaves = OfLeaves {
    name: "state",
    default: "State",
    example: "BatchStat",
    kind: Kind::State,
};

/// Parses an attribute such as `#[state]`, `#[state(Collection)]`, `#[state("batch")]` or
/// `#[state(Collection, "batch")]`.
pub(super) fn of_leaves(
    attribute: &Attribute,
    of: &OfLeaves,
    errors: &mut Errors,
) -> Option<(Kind, Option<ShapeText>)> {
    let OfLeaves {
        name,
        default,
        example,
        kind,
    } = of;
    match &attribute.meta {
        Meta::Path(_) => Some(no_axes(kind(None))),
        Meta::NameValue(meta) => {
            errors.push(
                meta,
                format!("expected a collection in parentheses: write `#[{name}(Collection)]`"),
            );
            None
        }
        Meta::List(list) if list.tokens.is_empty() => {
            errors.push(
                list,
                format!(
                    "expected the name of a collection: write `#[{name}(Collection)]`, or `#[{name}]` for the collection `{default}`"
                ),
            );
            None
        }
        Meta::List(list) => {
            let parse = |input: ParseStream<'_>| {
                let collection = if input.peek(LitStr) {
                    None
                } else {
                    let path = input.parse()?;
                    if !input.is_empty() {
                        input.parse::<Token![,]>()?;
                    }
                    Some(path)
                };
                let literal = if input.is_empty() {
                    None
                } else {
                    Some(input.parse::<LitStr>()?)
                };
                Ok((collection, literal))
            };
            let Ok((collection, literal)) = attribute.parse_args_with(parse) else {
                errors.push(
                    &list.tokens,
                    format!(
                        "expected the type of one collection, or named axes in quotes: write for instance `#[{name}({example})]` or `#[{name}(\"in out\")]`"
                    ),
                );
                return None;
            };
            if let Some(literal) = &literal
                && looks_like_a_type(&literal.value())
            {
                let text = literal.value();
                errors.push(
                    literal,
                    format!(
                        "names of axes begin with a small letter; to name a collection, write `#[{name}({text})]` without quotes"
                    ),
                );
                return None;
            }
            let axes = literal.and_then(|literal| axes(&literal, errors));
            Some((kind(collection), axes))
        }
    }
}

/// Returns whether a text is one word that is written like a type: with a capital first letter and some small letters.
fn looks_like_a_type(text: &str) -> bool {
    text.starts_with(char::is_uppercase)
        && text.contains(char::is_lowercase)
        && text.chars().all(char::is_alphanumeric)
}
