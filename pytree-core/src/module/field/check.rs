//! Finds the mistake of each type in a field, at compile time.
//!
//! The derive lists the type of a field and the types inside it: `Vec<Linear>` and `Linear`. If a type inside causes that
//! the field's type cannot have its kind, the message names that type instead of the whole type.

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

/// What [`Probe`](super::Probe) finds out about a type. An attribute does not need all of it; the rest is false.
#[derive(Clone, Copy, Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a trait that the type implements or not"
)]
#[allow(
    missing_docs,
    reason = "the constants of the same names are documented at `Fallback`"
)]
pub struct Facts {
    pub is_pytree: bool,
    pub is_module: bool,
    pub is_param: bool,
    pub is_state: bool,
    pub is_value: bool,
    pub is_hasher: bool,
    pub is_debug: bool,
    pub holds_arrays: bool,
    pub family: Family,
}

impl Facts {
    /// The facts of a type of which nothing is known.
    pub const NONE: Self = Self {
        is_pytree: false,
        is_module: false,
        is_param: false,
        is_state: false,
        is_value: false,
        is_hasher: false,
        is_debug: false,
        holds_arrays: false,
        family: Family::Other,
    };

    /// Returns whether an attribute allows a field of this type, or the type is an argument of a map.
    const fn fits(&self, attribute: Attribute) -> bool {
        match attribute {
            Attribute::Pytree => self.is_pytree,
            _ => {
                self.is_module || self.is_param || self.is_state || self.is_value || self.is_hasher
            }
        }
    }
}

/// A type in a field.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// What is known of the type.
    pub facts: Facts,
    /// What its tokens show.
    pub form: Form,
    /// The position of the type that directly contains it. The type of the field contains itself.
    pub parent: usize,
}

/// Returns the mistake of each type in a field. The first type is that of the field, and each type comes before the types
/// inside it.
pub const fn mistakes<const N: usize>(attribute: Attribute, held: [Held; N]) -> [Mistake; N] {
    let mut mistakes = [Mistake::None; N];
    mistakes[0] = whole(attribute, &held);
    if let Some(general) = general(attribute, &held[0].facts) {
        let mut is_explained = false;
        let causes = causes(attribute, &held);
        let mut position = 0;
        while position < N {
            if causes[position] {
                mistakes[position] = cause(attribute, &held[position]);
                is_explained |= !matches!(mistakes[position], Mistake::None);
            }
            position += 1;
        }
        if !is_explained {
            mistakes[0] = general;
        }
    }
    mistakes
}

/// Returns the mistake of the type of a field, unless a type inside may be the cause.
const fn whole(attribute: Attribute, held: &[Held]) -> Mistake {
    let facts = &held[0].facts;
    let is_size = matches!(facts.family, Family::Size);
    match attribute {
        Attribute::Module if facts.is_module => Mistake::None,
        Attribute::Module if facts.is_param && facts.holds_arrays => Mistake::ArrayNeedsKind,
        Attribute::Module if facts.is_param => Mistake::NumberNeedsKind,
        Attribute::Module if facts.is_state && facts.holds_arrays => Mistake::LeafNeedsKind,
        Attribute::Module if facts.is_state || is_size => Mistake::IntegerNeedsKind,
        Attribute::Module if facts.is_value => Mistake::StaticNeedsKind,
        Attribute::Param if facts.is_param => Mistake::None,
        Attribute::Param if facts.is_module => Mistake::ParamOfModule,
        Attribute::Param if facts.is_state => Mistake::ParamNotFloat,
        Attribute::State if facts.is_state => Mistake::None,
        Attribute::State if facts.is_module => Mistake::StateOfModule,
        Attribute::State if is_size => Mistake::StateOfSize,
        Attribute::Static | Attribute::StaticType if !facts.is_value => not_static(attribute, held),
        _ => Mistake::None,
    }
}

const fn not_static(attribute: Attribute, held: &[Held]) -> Mistake {
    let (mut holds_arrays, mut is_closure) = (false, false);
    let mut position = 0;
    while position < held.len() {
        holds_arrays |= held[position].facts.holds_arrays;
        is_closure |= matches!(held[position].form, Form::BoxedClosure);
        position += 1;
    }
    match attribute {
        _ if holds_arrays && held[0].facts.is_module => Mistake::StaticOfModule,
        Attribute::StaticType if holds_arrays => Mistake::StaticTypeOfArrays,
        _ if holds_arrays => Mistake::StaticOfArrays,
        _ if held[0].facts.is_debug => Mistake::None,
        _ if is_closure => Mistake::FieldOfClosure,
        _ => Mistake::StaticNotComparable,
    }
}

/// Returns the most general mistake, if the field has it: a type inside may be its cause. A field of a module without an
/// attribute always has a cause.
const fn general(attribute: Attribute, facts: &Facts) -> Option<Mistake> {
    let is_size = matches!(facts.family, Family::Size);
    match attribute {
        _ if facts.is_module && !matches!(attribute, Attribute::Pytree) => None,
        Attribute::Module if !(facts.is_param || facts.is_state || facts.is_value || is_size) => {
            Some(Mistake::None)
        }
        Attribute::Pytree if !facts.is_pytree => Some(Mistake::ChildNotPytree),
        Attribute::Param if !(facts.is_param || facts.is_state) => Some(Mistake::ParamNotLeaf),
        Attribute::State if !(facts.is_state || is_size) => Some(Mistake::StateNotLeaf),
        _ => None,
    }
}

/// Returns which types are causes: no attribute allows the type, nor any type that contains it, and an attribute allows
/// each type directly inside it.
const fn causes<const N: usize>(attribute: Attribute, held: &[Held; N]) -> [bool; N] {
    let mut causes = [false; N];
    let mut is_unfit = [false; N];
    let mut position = 0;
    while position < N {
        let Held {
            facts,
            form,
            parent,
        } = &held[position];
        let fits = facts.fits(attribute) || matches!(form, Form::Object);
        if !fits {
            causes[*parent] = false;
            is_unfit[position] = position == 0 || is_unfit[*parent];
            causes[position] = is_unfit[position];
        }
        position += 1;
    }
    causes
}

/// Returns the mistake of a type that is a cause.
const fn cause(attribute: Attribute, held: &Held) -> Mistake {
    let is_child = matches!(attribute, Attribute::Module);
    match (held.form, held.facts.family) {
        (Form::Object, _) => Mistake::None,
        (Form::BoxedClosure, _) => Mistake::FieldOfClosure,
        (Form::BoxedObject, _) => Mistake::ObjectNeedsAttribute,
        (Form::FunctionPointer, _) if is_child => Mistake::StaticNeedsKind,
        (_, Family::Counted) => Mistake::CountedNeedsShared,
        (_, Family::Cell) => Mistake::CellNeedsRef,
        (_, Family::Tuple) if is_child => Mistake::FieldMixesKinds,
        _ if is_child && held.facts.is_pytree => Mistake::FieldMixesKinds,
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
                [$(__field::check::Held {
                    facts: $crate::__check_field!(@$attribute $type),
                    form: __field::check::Form::$form,
                    parent: $parent,
                }),*],
            );
            &[$($(<$type as __field::$name<
                { __MISTAKES[$position] as ::core::primitive::u8 == __field::Mistake::$name as ::core::primitive::u8 }
            >>::CHECK,)*)*]
        };
    };
    (@Static $type:ty) => {
        $crate::__check_field!(@facts $type: is_module IS_MODULE, is_value IS_VALUE, is_debug IS_DEBUG, holds_arrays HOLDS_ARRAYS)
    };
    (@StaticType $type:ty) => {
        $crate::__check_field!(@Static $type)
    };
    (@Pytree $type:ty) => {
        $crate::__check_field!(@facts $type: is_pytree IS_PYTREE, family FAMILY)
    };
    (@Module $type:ty) => {
        $crate::__check_field!(
            @facts $type: is_pytree IS_PYTREE, is_module IS_MODULE, is_param IS_PARAM, is_state IS_STATE, is_value IS_VALUE,
            is_hasher IS_HASHER, holds_arrays HOLDS_ARRAYS, family FAMILY
        )
    };
    (@facts $type:ty: $($fact:ident $constant:ident),*) => {
        __field::check::Facts { $($fact: __field::Probe::<$type>::$constant,)* ..__field::check::Facts::NONE }
    };
    (@$leaf:ident $type:ty) => {
        $crate::__check_field!(
            @facts $type: is_module IS_MODULE, is_param IS_PARAM, is_state IS_STATE, is_value IS_VALUE, is_hasher IS_HASHER,
            family FAMILY
        )
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(family: Family, form: Form, parent: usize) -> Held {
        let facts = Facts {
            family,
            ..Facts::NONE
        };
        Held {
            facts,
            form,
            parent,
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
        map[0].facts.is_state = true;
        let expected = [Mistake::ParamNotFloat, Mistake::None, Mistake::None];
        assert_eq!(mistakes(Attribute::Param, map), expected);
        map[0].facts.is_state = false;
        map[1].facts.is_hasher = true;
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
        container.facts.is_pytree = true;
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
