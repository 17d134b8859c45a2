//! Checks of rules that a parser of single attributes cannot check. Each function documents its rule.

use quote::ToTokens;
use syn::{Data, Generics, Type};

use crate::attributes::kind::{Kind, Macro};
use crate::attributes::{FieldAttributes, KindAttribute};
use crate::errors::{Errors, did_you_mean_axis};
use crate::input::Field;
use crate::shape_language::Use;
use crate::types::held_types;

/// Parts of the message about an item that must own its data but borrows it: the beginning of the message and the fix.
pub(crate) struct Owner {
    owns: &'static str,
    fix: &'static str,
}

impl Owner {
    pub(crate) const LEAF: Self = Self {
        owns: "a leaf must own its data",
        fix: "use an owned type for the field",
    };

    fn of(macro_: Macro) -> Self {
        match macro_ {
            Macro::Module | Macro::Pytree => Self {
                owns: "a pytree must own its leaves",
                fix: "use an owned type for the field, or a `Shared`",
            },
            Macro::Static => Self {
                owns: "a static value must own its data",
                fix: "use an owned type for the field",
            },
        }
    }

    /// Rule: the item has no lifetime parameters, because it must own its data.
    pub(crate) fn lifetimes(&self, generics: &Generics, errors: &mut Errors) {
        for parameter in generics.lifetimes() {
            let lifetime = &parameter.lifetime;
            errors.push(
                parameter,
                format!(
                    "{owns} and cannot borrow for the lifetime `{lifetime}`: remove `{lifetime}` and {fix}",
                    owns = self.owns,
                    fix = self.fix
                ),
            );
        }
    }
}

/// Rule: a pytree or a static value has no lifetime parameters.
pub(crate) fn lifetimes(generics: &Generics, macro_: Macro, errors: &mut Errors) {
    Owner::of(macro_).lifetimes(generics, errors);
}

/// Rule: the type of a field contains no reference without a lifetime. Without this error, rustc would suggest a
/// lifetime parameter, which is not allowed either.
pub(crate) fn references(ty: &Type, macro_: Macro, errors: &mut Errors) {
    for held in held_types(ty) {
        let Type::Reference(reference) = held else {
            continue;
        };
        if reference.lifetime.is_none() {
            let Owner { owns, fix } = Owner::of(macro_);
            errors.push(reference, format!("{owns} and cannot borrow: {fix}"));
        }
    }
}

/// Rule: an item is not a union, because generated code cannot know which field a union holds.
pub(crate) fn data(data: &Data, macro_: Macro, errors: &mut Errors) {
    if let Data::Union(data) = data {
        let what = match macro_ {
            Macro::Module | Macro::Pytree => "a pytree",
            Macro::Static => "static",
        };
        errors.push(
            data.union_token,
            format!(
                "a union cannot be {what}, because generated code cannot know which of its fields is set: use an enum"
            ),
        );
    }
}

/// Rule: a field has at most one kind. In a plain container the only kind is `#[r#static]`.
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
            format!("`{name}` means the same as `{first_name}`: remove one")
        } else {
            format!(
                "a field has only one kind, but this field has the kinds `{first_name}` and `{name}`: remove one of them"
            )
        };
        errors.push(&other.attribute.meta, message);
    }
}

/// Rule: only a field of a module that holds modules is stacked. The axes of an array are named where its kind is.
pub(crate) fn stacked(field: &FieldAttributes<'_>, macro_: Macro, errors: &mut Errors) {
    let Some(stacked) = &field.stacked else {
        return;
    };
    let fix = match (macro_, field.kinds.first().map(|kind| &kind.kind)) {
        (Macro::Module, None) => return,
        (Macro::Module, Some(Kind::Static)) => {
            "remove it, because a static field has no arrays".to_owned()
        }
        (Macro::Module, Some(_)) => {
            let axis = stacked.literal.value().replace(" ...", "");
            format!(
                "name the axis of an array in its own attribute, as in `#[param(\"{axis} in out\")]`"
            )
        }
        _ => "derive `Module` instead of `Pytree`".to_owned(),
    };
    errors.push(
        &stacked.literal,
        format!("`stacked` belongs on a field of a module that holds modules: {fix}"),
    );
}

fn collection(kind: &Kind) -> Option<String> {
    match kind {
        Kind::Param(Some(path)) | Kind::State(Some(path)) => {
            Some(path.to_token_stream().to_string())
        }
        _ => None,
    }
}

/// Reports each name that occurs in a computed length but stands for no length itself: no axis of a field, no static
/// field and no constant has this name.
pub(crate) fn axes(fields: &[Field], generics: &Generics, errors: &mut Errors) {
    let names = || {
        let shapes = fields.iter().filter_map(|field| field.axes.as_ref());
        shapes.flat_map(|shape| shape.names().into_iter().map(move |name| (shape, name)))
    };
    for (shape, name) in names().filter(|(_, name)| name.used == Use::Computed) {
        let is_axis = names().any(|(_, other)| other.used == Use::Axis && other.key == name.key);
        let is_static = fields
            .iter()
            .any(|field| field.is_static() && field.name() == name.key);
        let is_constant = generics
            .const_params()
            .any(|constant| constant.ident == name.key);
        if !is_axis && !is_static && !is_constant {
            let key = &name.key;
            let axes = names().filter(|(_, other)| other.used == Use::Axis);
            let axes = axes.map(|(_, other)| other.key);
            let statics = fields.iter().filter(|field| field.is_static());
            let known: Vec<String> = axes.chain(statics.map(Field::name)).collect();
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            let hint = did_you_mean_axis(key, &known);
            let message = format!(
                "`{key}` has no length: it occurs only in a computed length, and `{key}` cannot be found from the result of a computation; make it an axis of a field, or a static field `#[r#static] {key}: usize`{hint}"
            );
            errors.add(shape.error_at(&name, &message));
        }
    }
}
