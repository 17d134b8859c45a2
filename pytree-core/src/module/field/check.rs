//! Finds the mistake of each type in a field, at compile time.
//!
//! The derive lists the type of a field and the types inside it: `Vec<Linear>` and `Linear`. If a type inside causes that
//! the field's type cannot have its kind, the message names that type instead of the whole type.

#![allow(missing_docs, reason = "the fields are documented at `Fallback`")]
#![allow(clippy::struct_excessive_bools, reason = "each is a trait")]

use super::mistakes::Mistake;
use super::probe::Family;

/// The kind of a field, as its attribute and the derive of its item determine it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attribute {
    /// A field of a module without an attribute.
    Module,
    /// A field of a plain container without an attribute.
    Pytree,
    /// A field with `#[param]`.
    Param,
    /// A field with `#[state]`.
    State,
    /// A field with `#[r#static]`.
    Static,
    /// A field of a type that derives `Static`.
    StaticType,
}

/// What the tokens of a type show, but no trait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Any other type.
    Plain,
    /// A function pointer. It can be static even if it is not a `StaticValue`, because it has reference arguments.
    FunctionPointer,
    /// A trait object. Its mistake is reported with the pointer around it.
    Object,
    /// A pointer to a trait object.
    BoxedObject,
    /// A pointer to a closure.
    BoxedClosure,
}

/// A type in a field, with what [`Probe`](super::Probe) finds out about it.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// The position of the type that directly contains it. The type of the field contains itself.
    pub parent: usize,
    pub form: Form,
    pub family: Family,
    pub is_pytree: bool,
    pub is_module: bool,
    pub is_param: bool,
    pub is_state: bool,
    pub is_value: bool,
    pub is_hasher: bool,
    pub is_debug: bool,
    pub holds_arrays: bool,
}

/// Returns the mistake of each type in a field. The first type is that of the field, and each type comes before the types
/// inside it.
pub const fn mistakes<const N: usize>(attribute: Attribute, held: [Held; N]) -> [Mistake; N] {
    let mut mistakes = [Mistake::None; N];
    mistakes[0] = of_field(attribute, &held);
    if !matches!(
        mistakes[0],
        Mistake::TypeNeedsDerive
            | Mistake::ChildNotPytree
            | Mistake::ParamNotLeaf
            | Mistake::StateNotLeaf
    ) {
        return mistakes;
    }
    let causes = causes(attribute, &held);
    let mut position = N;
    while position > 0 {
        position -= 1;
        let cause = of_cause(attribute, &held[position]);
        if causes[position] && !matches!(cause, Mistake::None) {
            mistakes[0] = Mistake::None;
            mistakes[position] = cause;
        }
    }
    mistakes
}

/// Returns the mistake of the type of a field. If it is the most general one of the attribute, a type inside may be the cause.
const fn of_field(attribute: Attribute, held: &[Held]) -> Mistake {
    let field = &held[0];
    let is_size = matches!(field.family, Family::Size);
    match attribute {
        Attribute::Module if field.is_module => Mistake::None,
        Attribute::Module if field.is_param && field.holds_arrays => Mistake::ArrayNeedsKind,
        Attribute::Module if field.is_param => Mistake::NumberNeedsKind,
        Attribute::Module if field.is_state && field.holds_arrays => Mistake::LeafNeedsKind,
        Attribute::Module if field.is_state || is_size => Mistake::IntegerNeedsKind,
        Attribute::Module if field.is_value => Mistake::StaticNeedsKind,
        Attribute::Module => Mistake::TypeNeedsDerive,
        Attribute::Pytree if field.is_pytree => Mistake::None,
        Attribute::Pytree => Mistake::ChildNotPytree,
        Attribute::Param if field.is_param => Mistake::None,
        Attribute::Param if field.is_module => Mistake::ParamOfModule,
        Attribute::Param if field.is_state => Mistake::ParamNotFloat,
        Attribute::Param => Mistake::ParamNotLeaf,
        Attribute::State if field.is_state => Mistake::None,
        Attribute::State if field.is_module => Mistake::StateOfModule,
        Attribute::State if is_size => Mistake::StateOfSize,
        Attribute::State => Mistake::StateNotLeaf,
        Attribute::Static | Attribute::StaticType => of_static(attribute, held),
    }
}

const fn of_static(attribute: Attribute, held: &[Held]) -> Mistake {
    let (mut holds_arrays, mut is_closure) = (false, false);
    let mut position = 0;
    while position < held.len() {
        holds_arrays |= held[position].holds_arrays;
        is_closure |= matches!(held[position].form, Form::BoxedClosure);
        position += 1;
    }
    match attribute {
        _ if held[0].is_value => Mistake::None,
        _ if holds_arrays && held[0].is_module => Mistake::StaticOfModule,
        Attribute::StaticType if holds_arrays => Mistake::StaticTypeOfArrays,
        _ if holds_arrays => Mistake::StaticOfArrays,
        _ if held[0].is_debug => Mistake::None,
        _ if is_closure => Mistake::FieldOfClosure,
        _ => Mistake::StaticNotComparable,
    }
}

/// Returns which types are causes: no attribute allows the type, nor any type that contains it, and an attribute allows
/// each type directly inside it.
const fn causes<const N: usize>(attribute: Attribute, held: &[Held; N]) -> [bool; N] {
    let (mut causes, mut is_unfit) = ([false; N], [false; N]);
    let mut position = 0;
    while position < N {
        let held = &held[position];
        let fits = match attribute {
            _ if matches!(held.form, Form::Object) => true,
            Attribute::Pytree => held.is_pytree,
            _ if held.is_module || held.is_param || held.is_state => true,
            _ => held.is_value || held.is_hasher,
        };
        if !fits {
            causes[held.parent] = false;
            is_unfit[position] = position == 0 || is_unfit[held.parent];
            causes[position] = is_unfit[position];
        }
        position += 1;
    }
    causes
}

/// Returns the mistake of a type that is a cause.
const fn of_cause(attribute: Attribute, held: &Held) -> Mistake {
    let is_child = matches!(attribute, Attribute::Module);
    match (held.form, held.family) {
        (Form::BoxedClosure, _) => Mistake::FieldOfClosure,
        (Form::BoxedObject, _) => Mistake::ObjectNeedsAttribute,
        (Form::FunctionPointer, _) if is_child => Mistake::StaticNeedsKind,
        (_, Family::Counted) => Mistake::CountedNeedsShared,
        (_, Family::Cell) => Mistake::CellNeedsRef,
        (_, Family::Tuple) if is_child => Mistake::FieldMixesKinds,
        _ if is_child && held.is_pytree => Mistake::FieldMixesKinds,
        _ if is_child => Mistake::TypeNeedsDerive,
        _ => Mistake::None,
    }
}

/// Checks the type of a field: `check_field!(Param 2: 0 Plain 0 Vec<f32> [ParamOfModule …], 1 Plain 0 f32 [CellNeedsRef …])`.
/// Each type has its position, its form, the position of its parent, and the mistakes that it may have.
#[macro_export]
#[doc(hidden)]
macro_rules! __check_field {
    ($attribute:ident $count:literal: $($position:literal $form:ident $parent:literal $type:ty [$($name:ident)*]),*) => {
        const _: &[()] = {
            use $crate::__derive_0_1::field as __field;
            const __MISTAKES: [__field::Mistake; $count] = __field::check::mistakes(
                __field::check::Attribute::$attribute,
                [$({
                    type __Probe = __field::Probe<$type>;
                    __field::check::Held {
                        parent: $parent,
                        form: __field::check::Form::$form,
                        family: __Probe::FAMILY,
                        is_pytree: __Probe::IS_PYTREE,
                        is_module: __Probe::IS_MODULE,
                        is_param: __Probe::IS_PARAM,
                        is_state: __Probe::IS_STATE,
                        is_value: __Probe::IS_VALUE,
                        is_hasher: __Probe::IS_HASHER,
                        is_debug: __Probe::IS_DEBUG,
                        holds_arrays: __Probe::HOLDS_ARRAYS,
                    }
                }),*],
            );
            &[$($(<$type as __field::$name<
                { __MISTAKES[$position] as ::core::primitive::u8 == __field::Mistake::$name as ::core::primitive::u8 }
            >>::CHECK,)*)*]
        };
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(family: Family, form: Form, parent: usize) -> Held {
        Held {
            parent,
            form,
            family,
            is_pytree: false,
            is_module: false,
            is_param: false,
            is_state: false,
            is_value: false,
            is_hasher: false,
            is_debug: false,
            holds_arrays: false,
        }
    }

    fn plain(parent: usize) -> Held {
        held(Family::Other, Form::Plain, parent)
    }

    #[test]
    fn each_innermost_unfit_type_is_reported() {
        // `(Vec<Arc<_>>, Cell<_>)`
        let tuple = [
            held(Family::Tuple, Form::Plain, 0),
            plain(0),
            held(Family::Counted, Form::Plain, 1),
            held(Family::Cell, Form::Plain, 0),
        ];
        let causes = [
            Mistake::None,
            Mistake::None,
            Mistake::CountedNeedsShared,
            Mistake::CellNeedsRef,
        ];
        assert_eq!(mistakes(Attribute::Module, tuple), causes);
        assert_eq!(mistakes(Attribute::Param, tuple), causes);
        assert_eq!(mistakes(Attribute::Pytree, tuple), causes);
    }

    #[test]
    fn type_inside_fitting_type_is_no_cause() {
        // A map is fit, and its key is unfit, and an unfit type is in the key.
        let mut map = [plain(0), plain(0), held(Family::Counted, Form::Plain, 1)];
        map[0].is_state = true;
        let expected = [Mistake::ParamNotFloat, Mistake::None, Mistake::None];
        assert_eq!(mistakes(Attribute::Param, map), expected);
        map[0].is_state = false;
        map[1].is_hasher = true;
        let expected = [Mistake::ParamNotLeaf, Mistake::None, Mistake::None];
        assert_eq!(mistakes(Attribute::Param, map), expected);
    }

    #[test]
    fn unexplained_field_has_general_mistake() {
        for (attribute, general) in [
            (Attribute::Module, Mistake::TypeNeedsDerive),
            (Attribute::Pytree, Mistake::ChildNotPytree),
            (Attribute::Param, Mistake::ParamNotLeaf),
            (Attribute::State, Mistake::StateNotLeaf),
            (Attribute::Static, Mistake::StaticNotComparable),
            (Attribute::StaticType, Mistake::StaticNotComparable),
        ] {
            assert_eq!(mistakes(attribute, [plain(0)]), [general]);
        }
        let mut container = plain(0);
        container.is_pytree = true;
        assert_eq!(
            mistakes(Attribute::Module, [container]),
            [Mistake::FieldMixesKinds]
        );
    }

    #[test]
    fn form_of_type_decides_its_mistake() {
        let of = |attribute, form| mistakes(attribute, [held(Family::Other, form, 0)])[0];
        let module = Attribute::Module;
        assert_eq!(of(module, Form::FunctionPointer), Mistake::StaticNeedsKind);
        assert_eq!(of(module, Form::BoxedClosure), Mistake::FieldOfClosure);
        assert_eq!(of(module, Form::BoxedObject), Mistake::ObjectNeedsAttribute);
        let param = Attribute::Param;
        assert_eq!(of(param, Form::FunctionPointer), Mistake::ParamNotLeaf);
        assert_eq!(of(param, Form::BoxedObject), Mistake::ObjectNeedsAttribute);
        let fixed = Attribute::Static;
        assert_eq!(of(fixed, Form::BoxedClosure), Mistake::FieldOfClosure);
        assert_eq!(of(fixed, Form::BoxedObject), Mistake::StaticNotComparable);
    }
}
