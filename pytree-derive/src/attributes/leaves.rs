//! Parses `#[param]` and `#[state]`, which may name a collection and the axes with their roles.

use syn::parse::ParseStream;
use syn::{Attribute, LitStr, Meta, Path, Token};

use super::roles::{self, RolesText};
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
                let comma = || {
                    if input.is_empty() {
                        return Ok(());
                    }
                    input.parse::<Token![,]>().map(drop)
                };
                let (mut collection, mut literal) = (None, None);
                if !input.peek(LitStr) && !RolesText::is_next(input) {
                    collection = Some(input.parse()?);
                    comma()?;
                }
                if !input.is_empty() && !RolesText::is_next(input) {
                    literal = Some(input.parse::<LitStr>()?);
                    comma()?;
                }
                let roles = RolesText::read(input)?;
                comma()?;
                Ok((collection, literal, roles))
            };
            let Ok((collection, literal, roles)) = attribute.parse_args_with(parse) else {
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
            let is_named = literal.is_some();
            let mut axes = literal.as_ref().and_then(|literal| axes(literal, errors));
            if axes.is_some() || !is_named {
                roles::add_to(axes.as_mut(), roles, name, &list.tokens, errors);
            }
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
