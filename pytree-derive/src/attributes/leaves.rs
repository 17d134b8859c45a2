//! Parses `#[param]` and `#[state]`, which may name a collection and the axes with their roles.
use quote::ToTokens;
use syn::parse::ParseStream;
use syn::{Attribute, LitStr, Meta, Path, Token};

use super::roles::{ROLES, RolesText, variant};
use crate::attributes::kind::Kind;
use crate::errors::{Errors, did_you_mean};
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
                add_roles(axes.as_mut(), roles, name, &list.tokens, errors);
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

pub(super) const fn no_axes(kind: Kind) -> (Kind, Option<ShapeText>) {
    (kind, None)
}

/// Parses the text of named axes, and reports its mistakes.
pub(super) fn axes(literal: &LitStr, errors: &mut Errors) -> Option<ShapeText> {
    match ShapeText::parse(literal) {
        Ok(axes) => Some(axes),
        Err(error) => {
            errors.add(error);
            None
        }
    }
}

/// Adds the roles to the named axes of a field, and reports mistakes. `attribute` is the name of the attribute.
pub(super) fn add_roles(
    axes: Option<&mut ShapeText>,
    roles: Option<syn::Result<RolesText>>,
    attribute: &str,
    place: impl ToTokens,
    errors: &mut Errors,
) {
    let roles = match roles {
        None => return,
        Some(Err(error)) => {
            let message = format!(
                "expected the roles of the axes: write for instance `#[{attribute}(\"in out\", roles(input, output))]`, or `roles = function`"
            );
            return errors.add(syn::Error::new(error.span(), message));
        }
        Some(Ok(roles)) => roles,
    };
    let Some(axes) = axes else {
        return errors.push(
            place,
            format!("roles belong to named axes: write for instance `#[{attribute}(\"in out\", roles(input, output))]`"),
        );
    };
    if let RolesText::Listed(listed) = &roles {
        let names = ROLES.map(|(name, _)| name);
        let unknown = listed.iter().filter(|role| variant(role).is_none());
        let mut is_known = true;
        for role in unknown {
            is_known = false;
            let hint = did_you_mean(&role.to_string(), &names);
            let known = names.join("`, `");
            errors.push(
                role,
                format!("unknown role `{role}`: the roles are `{known}`{hint}"),
            );
        }
        let (found, expected) = (listed.len(), axes.num_axes());
        if is_known && found != expected {
            errors.push(
                &axes.literal,
                format!(
                    "found {found} role{} for the {expected} ax{}s of `{}`: write one role for each axis, and one for `...` or `*name`",
                    if found == 1 { "" } else { "s" },
                    if expected == 1 { "i" } else { "e" },
                    axes.displayed(),
                ),
            );
        }
    }
    axes.roles = Some(roles);
}
