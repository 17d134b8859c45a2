//! The rules across attributes, fields and the item; each states itself above its function.

use quote::ToTokens;
use syn::{Data, Generics};

use crate::attributes::KindAttribute;
use crate::errors::Errors;
use crate::input::{Kind, Macro};

/// A pytree owns its leaves: it has no lifetime parameters.
pub(crate) fn lifetimes(generics: &Generics, errors: &mut Errors) {
    for parameter in generics.lifetimes() {
        errors.push(
            parameter,
            format!(
                "a pytree owns its leaves and cannot borrow for `{lifetime}`: remove `{lifetime}` and own the field, or share it by `Shared`",
                lifetime = parameter.lifetime
            ),
        );
    }
}

/// A pytree knows which of its fields are there: it is no union.
pub(crate) fn data(data: &Data, errors: &mut Errors) {
    if let Data::Union(data) = data {
        errors.push(
            data.union_token,
            "a union cannot be a pytree, since it does not know which field it holds: use an enum",
        );
    }
}

/// A field has one kind, and in a plain container none but `#[r#static]`.
pub(crate) fn kinds(kinds: &[KindAttribute<'_>], macro_: Macro, errors: &mut Errors) {
    if macro_ == Macro::Pytree {
        for kind in kinds
            .iter()
            .filter(|kind| !matches!(kind.kind, Kind::Static))
        {
            errors.push(
                &kind.attribute.meta,
                format!(
                    "a field of a plain container has no kind: remove `{name}`, or derive `Module` instead of `Pytree`",
                    name = kind.name()
                ),
            );
        }
    }
    let Some((first, others)) = kinds.split_first() else {
        return;
    };
    for other in others {
        let (name, first_name) = (other.name(), first.name());
        let same = std::mem::discriminant(&other.kind) == std::mem::discriminant(&first.kind)
            && collection(&other.kind) == collection(&first.kind);
        let message = if same && name == first_name {
            format!("`{name}` is written twice: remove one")
        } else if same {
            format!("`{name}` says the same as `{first_name}`: remove one")
        } else {
            format!("a field has one kind, here it is both `{first_name}` and `{name}`: remove one")
        };
        errors.push(&other.attribute.meta, message);
    }
}

fn collection(kind: &Kind) -> Option<String> {
    match kind {
        Kind::State(Some(path)) => Some(path.to_token_stream().to_string()),
        _ => None,
    }
}
