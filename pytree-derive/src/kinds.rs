//! Checks that the type of each field fits its kind.
//!
//! If the type has no parameters, the check is generated next to the item. There is a trait for each possible mistake,
//! and the use of the trait compiles only if the mistake was not made. If a type inside the field's type causes the
//! mistake, the message names that type. A type with parameters is known only at each use of the item, so its check is
//! a bound of the implementations.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::Type;

use crate::input::{Field, Input, Kind, Macro};
use crate::paths::located;
use crate::types::{Held, held, is_function};

/// Generates the checks of the types of all fields.
pub(crate) fn checks(input: &Input<'_>) -> TokenStream {
    input.fields().map(|field| check(input, field)).collect()
}

fn check(input: &Input<'_>, field: &Field) -> TokenStream {
    if field.mentions.parameters {
        return if field.mentions.itself {
            check_in_function(input, field)
        } else {
            TokenStream::new()
        };
    }
    let root = &input.root;
    let ty = &field.ty;
    let causes = Causes::of(input, field);
    let mistakes = mistakes(input, field, &causes);
    let mistakes = mistakes.into_iter().map(|mistake| {
        let Mistake { ty, name, when } = mistake;
        let name = format_ident!("{name}");
        quote!(<#ty as #root::field::#name<{ #when }>>::CHECK)
    });
    let unfit = &causes.unfit;
    quote! {
        const _: &[()] = {
            type __Probe = #root::field::Probe<#ty>;
            #unfit
            &[#(#mistakes),*]
        };
    }
}

/// Generates a function that checks the type of a field. The check is in a function if the field's type mentions its
/// generic item, because a bound on such a type in the implementations would recurse without end.
fn check_in_function(input: &Input<'_>, field: &Field) -> TokenStream {
    let Some(bound) = bound(input, field) else {
        return TokenStream::new();
    };
    let (generics, _, where_clause) = input.generics.split_for_impl();
    let predicates = predicates(input);
    let given = where_clause
        .into_iter()
        .flat_map(|clause| &clause.predicates);
    let ty = &field.ty;
    quote! {
        const _: () = {
            fn __is<__T: #bound>() {}
            fn __check #generics () where #(#given,)* #predicates {
                __is::<#ty>();
            }
        };
    }
}

/// A possible mistake: the type in the message, the trait with the message, and the condition under which the mistake
/// was made.
struct Mistake<'a> {
    ty: &'a Type,
    name: &'static str,
    when: TokenStream,
}

/// The types inside a field's type that explain why the field's type cannot have its kind. The message names one of
/// these types instead of the whole type.
struct Causes<'a> {
    /// The constant `__UNFIT`. For each type inside the field's type, the constant contains whether this type is unfit.
    /// A type is unfit if no attribute allows a field of this type.
    unfit: TokenStream,
    /// Each type that may be the cause, with the condition that makes it the cause: the type and all types that contain
    /// it are unfit, and no type directly inside it is unfit.
    found: Vec<(Held<'a>, TokenStream)>,
}

impl<'a> Causes<'a> {
    fn of(input: &Input<'_>, field: &'a Field) -> Self {
        let none = Self {
            unfit: TokenStream::new(),
            found: Vec::new(),
        };
        if field.is_static() {
            return none;
        }
        let root = &input.root;
        let held = held(&field.ty);
        let unfit = held.iter().map(|held| {
            let ty = held.ty;
            if matches!(ty, Type::TraitObject(_)) {
                return quote!(false); // reported with the pointer around it
            }
            let is = quote!(#root::field::Probe::<#ty>);
            match input.macro_ {
                Macro::Pytree => quote!(!#is::IS_PYTREE),
                Macro::Module | Macro::Static => quote! {
                    !(#is::IS_MODULE || #is::IS_PARAM || #is::IS_STATE || #is::IS_VALUE || #is::IS_HASHER)
                },
            }
        });
        let count = held.len();
        let unfit = quote!(const __UNFIT: [::core::primitive::bool; #count] = [#(#unfit),*];);
        let conditions: Vec<_> = (0..count)
            .map(|position| {
                let around = std::iter::successors(Some(position), |at| held[*at].parent);
                let inside = (0..count).filter(|at| held[*at].parent == Some(position));
                quote!(#(__UNFIT[#around])&&* #(&& !__UNFIT[#inside])*)
            })
            .collect();
        let found = held.into_iter().zip(conditions);
        let found = found.filter(|(held, _)| !matches!(held.ty, Type::TraitObject(_)));
        Self {
            unfit,
            found: found.collect(),
        }
    }

    /// Returns the possible mistakes whose message names a cause: see [`Causes`]. The generated code reports these
    /// mistakes only if the condition `base` holds.
    fn mistakes(&self, input: &Input<'_>, base: &TokenStream) -> Vec<Mistake<'a>> {
        let root = &input.root;
        let mut mistakes = Vec::new();
        for (held, is_cause) in &self.found {
            let ty = held.ty;
            let mut add = |name, of: TokenStream| {
                let when = quote!(#base && #is_cause #of);
                mistakes.push(Mistake { ty, name, when });
            };
            match held.object() {
                Some(object) if is_function(object) => add("FieldOfClosure", quote!()),
                Some(_) => add("ObjectNeedsAttribute", quote!()),
                None => {
                    let is = quote!(#root::field::Probe::<#ty>);
                    add("CountedNeedsShared", quote!(&& #is::IS_COUNTED));
                    add("CellNeedsRef", quote!(&& #is::IS_CELL));
                }
            }
        }
        mistakes
    }

    /// Returns the possible mistakes of a field without an attribute. If the condition `base` holds, the generated code
    /// reports one mistake for every cause.
    fn mistakes_without_kind(&self, input: &Input<'_>, base: &TokenStream) -> Vec<Mistake<'a>> {
        let root = &input.root;
        let mut mistakes = self.mistakes(input, base);
        for (held, is_cause) in &self.found {
            if held.object().is_some() {
                continue;
            }
            let ty = held.ty;
            let is = quote!(#root::field::Probe::<#ty>);
            let named = quote!(#is::IS_COUNTED || #is::IS_CELL);
            let mixes = quote!(#is::IS_TUPLE || #is::IS_PYTREE);
            mistakes.push(Mistake {
                ty,
                name: "FieldMixesKinds",
                when: quote!(#base && #is_cause && !(#named) && (#mixes)),
            });
            // A function pointer with reference arguments can be static, although its type does not implement
            // `StaticValue`.
            let is_pointer = matches!(ty, Type::FnPtr(_));
            mistakes.push(Mistake {
                ty,
                name: if is_pointer {
                    "StaticNeedsKind"
                } else {
                    "TypeNeedsDerive"
                },
                when: quote!(#base && #is_cause && !(#named || #mixes)),
            });
        }
        mistakes
    }
}

/// Returns the mistakes that are possible for a field, depending on the kind of the field.
fn mistakes<'a>(input: &Input<'_>, field: &'a Field, causes: &Causes<'a>) -> Vec<Mistake<'a>> {
    let ty = &field.ty;
    let whole = |name, when| Mistake { ty, name, when };
    let is_module = quote!(__Probe::IS_MODULE);
    // `last` is the most general mistake. If a type inside the field's type causes this mistake, a message about that
    // type replaces the general message.
    let (mut mistakes, last) = match &field.kind {
        Kind::Child if input.macro_ == Macro::Pytree => {
            (vec![], ("ChildNotPytree", quote!(!__Probe::IS_PYTREE)))
        }
        Kind::Child => {
            let leaf = quote!(!#is_module && __Probe::IS_PARAM);
            let state = quote!(!#is_module && !__Probe::IS_PARAM && __Probe::IS_STATE);
            let none = quote!(!#is_module && !__Probe::IS_PARAM && !__Probe::IS_STATE);
            let mut mistakes = vec![
                whole("ArrayNeedsKind", quote!(#leaf && __Probe::HOLDS_ARRAYS)),
                whole("NumberNeedsKind", quote!(#leaf && !__Probe::HOLDS_ARRAYS)),
                whole("LeafNeedsKind", quote!(#state && __Probe::HOLDS_ARRAYS)),
                whole(
                    "IntegerNeedsKind",
                    quote!((#state && !__Probe::HOLDS_ARRAYS) || (#none && __Probe::IS_SIZE)),
                ),
                whole(
                    "StaticNeedsKind",
                    quote!(#none && __Probe::IS_VALUE && !__Probe::IS_SIZE),
                ),
            ];
            let none = quote!(#none && !__Probe::IS_VALUE);
            mistakes.extend(causes.mistakes_without_kind(input, &none));
            return mistakes;
        }
        Kind::Param(_) => (
            vec![
                whole("ParamOfModule", quote!(#is_module && !__Probe::IS_PARAM)),
                whole(
                    "ParamNotFloat",
                    quote!(!#is_module && !__Probe::IS_PARAM && __Probe::IS_STATE),
                ),
            ],
            (
                "ParamNotLeaf",
                quote!(!#is_module && !__Probe::IS_PARAM && !__Probe::IS_STATE),
            ),
        ),
        Kind::State(_) => {
            let none = quote!(!#is_module && !__Probe::IS_STATE);
            (
                vec![
                    whole("StateOfModule", quote!(#is_module && !__Probe::IS_STATE)),
                    whole("StateOfSize", quote!(#none && __Probe::IS_SIZE)),
                ],
                ("StateNotLeaf", quote!(#none && !__Probe::IS_SIZE)),
            )
        }
        Kind::Static => return static_mistakes(input, ty),
    };
    let (name, base) = last;
    let explained = causes.mistakes(input, &base);
    let others = explained.iter().map(|mistake| &mistake.when);
    mistakes.push(whole(name, quote!(#base #(&& !(#others))*)));
    mistakes.extend(explained);
    mistakes
}

fn static_mistakes<'a>(input: &Input<'_>, ty: &'a Type) -> Vec<Mistake<'a>> {
    let root = &input.root;
    let whole = |name, when| Mistake { ty, name, when };
    let held = held(ty);
    let holds = held.iter().map(|held| {
        let ty = held.ty;
        quote!(#root::field::Probe::<#ty>::HOLDS_ARRAYS)
    });
    let holds = quote!((#(#holds)||*));
    let is_value = quote!(__Probe::IS_VALUE);
    let of_arrays = match input.macro_ {
        Macro::Static => "StaticTypeOfArrays",
        Macro::Module | Macro::Pytree => "StaticOfArrays",
    };
    let mut objects = held.iter().filter_map(Held::object);
    let not_comparable = if objects.any(is_function) {
        "FieldOfClosure"
    } else {
        "StaticNotComparable"
    };
    vec![
        whole(
            "StaticOfModule",
            quote!(!#is_value && __Probe::IS_MODULE && #holds),
        ),
        whole(
            of_arrays,
            quote!(!#is_value && !__Probe::IS_MODULE && #holds),
        ),
        whole(
            not_comparable,
            quote!(!#is_value && !#holds && !__Probe::IS_DEBUG),
        ),
    ]
}

/// Returns the trait that the type of a field must implement.
fn bound(input: &Input<'_>, field: &Field) -> Option<TokenStream> {
    let root = &input.root;
    Some(match (&field.kind, input.macro_) {
        (Kind::Static, _) => quote!(#root::StaticValue),
        (Kind::Child, Macro::Pytree) => quote!(#root::Pytree),
        (Kind::Child, Macro::Module) => quote!(#root::field::ModuleField),
        (Kind::Child, Macro::Static) => return None,
        (Kind::Param(_), _) => quote!(#root::field::ParamField),
        (Kind::State(_), _) => quote!(#root::field::StateField),
    })
}

/// Returns the bounds of every implementation: type parameters are `'static`, and each field type that mentions
/// parameters fits the kind of its field.
pub(crate) fn predicates(input: &Input<'_>) -> TokenStream {
    let parameters = input
        .generics
        .type_params()
        .map(|parameter| &parameter.ident);
    let fields = input
        .fields()
        .filter(|field| field.mentions.parameters && !field.mentions.itself)
        .filter_map(|field| {
            let bound = located(bound(input, field)?, field.span);
            let ty = &field.ty;
            Some(quote!(#ty: #bound,))
        });
    quote!(#(#parameters: 'static,)* #(#fields)*)
}
