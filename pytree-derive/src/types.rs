//! Reads the type of a field: the generic parameters that the type mentions, and the types that it contains.
//!
//! The tokens of a type never decide the kind of a field, because a type alias would hide them. Traits decide the kind.

use std::collections::HashSet;

use proc_macro2::{Group, TokenStream, TokenTree};
use quote::ToTokens;
use syn::visit::{self, Visit};
use syn::{GenericArgument, Generics, Ident, PathArguments, Type, TypeParamBound, TypeTraitObject};

/// Whether the type of a field mentions generic parameters or the item itself.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mentions {
    /// Whether the type mentions a type or const parameter of the item. Such a type is known only at each use of the
    /// item.
    pub(crate) parameters: bool,
    /// Whether the type mentions the item itself, also indirectly. A bound on such a type would recurse without end.
    pub(crate) itself: bool,
}

impl Mentions {
    /// Reads the type of a field of the item `ident`. In this type, `Self` is already [replaced](spell_self).
    pub(crate) fn of(ty: &Type, ident: &Ident, generics: &Generics) -> Self {
        let parameters: HashSet<String> = generics
            .type_params()
            .map(|parameter| parameter.ident.to_string())
            .chain(
                generics
                    .const_params()
                    .map(|parameter| parameter.ident.to_string()),
            )
            .collect();
        Self {
            parameters: mentions(ty.to_token_stream(), &|word| {
                parameters.contains(&word.to_string())
            }),
            itself: mentions(ty.to_token_stream(), &|word| word == ident),
        }
    }
}

/// Returns whether a type is written as an integer type. An alias of an integer type is not recognized.
pub(crate) fn is_integer(ty: &Type) -> bool {
    const INTEGERS: [&str; 12] = [
        "usize", "u8", "u16", "u32", "u64", "u128", "isize", "i8", "i16", "i32", "i64", "i128",
    ];
    let last = match ty {
        Type::Path(path) => path.path.segments.last(),
        _ => None,
    };
    last.is_some_and(|last| INTEGERS.iter().any(|name| last.ident == name))
}

/// Returns whether any path in the tokens begins with a word that `is_wanted` accepts.
fn mentions(tokens: TokenStream, is_wanted: &dyn Fn(&Ident) -> bool) -> bool {
    let mut after_colon = false;
    tokens.into_iter().any(|token| {
        let starts_path = !std::mem::take(&mut after_colon);
        match token {
            TokenTree::Ident(word) => starts_path && is_wanted(&word),
            TokenTree::Group(group) => mentions(group.stream(), is_wanted),
            TokenTree::Punct(punct) => {
                after_colon = punct.as_char() == ':';
                false
            }
            TokenTree::Literal(_) => false,
        }
    })
}

/// Replaces `Self` by the name of the item, because checks are generated outside of the item.
pub(crate) fn spell_self(ty: &Type, ident: &Ident, generics: &Generics) -> Type {
    let (_, arguments, _) = generics.split_for_impl();
    let tokens = replace_self(
        ty.to_token_stream(),
        &quote::quote_spanned!(ident.span()=> #ident #arguments),
    );
    syn::parse2(tokens).unwrap_or_else(|_| ty.clone())
}

fn replace_self(tokens: TokenStream, replacement: &TokenStream) -> TokenStream {
    tokens
        .into_iter()
        .flat_map(|token| match token {
            TokenTree::Ident(word) if word == "Self" => replacement.clone(),
            TokenTree::Group(group) => {
                let mut replaced =
                    Group::new(group.delimiter(), replace_self(group.stream(), replacement));
                replaced.set_span(group.span());
                TokenTree::Group(replaced).into()
            }
            other => other.into(),
        })
        .collect()
}

/// The type of a field, or a type that occurs in it.
pub(crate) struct Held<'a> {
    pub(crate) ty: &'a Type,
    /// The type that directly contains `ty`, as a position in the list that [`held`] returns. `None` for the type of
    /// the field.
    pub(crate) parent: Option<usize>,
}

impl Held<'_> {
    /// Returns the trait, if the type is a pointer to a trait object, such as `Box<dyn Layer>`.
    pub(crate) fn object(&self) -> Option<&TypeTraitObject> {
        let Type::Path(path) = self.ty else {
            return None;
        };
        let PathArguments::AngleBracketed(arguments) = &path.path.segments.last()?.arguments else {
            return None;
        };
        arguments.args.iter().find_map(|argument| match argument {
            GenericArgument::Type(Type::TraitObject(object)) => Some(object),
            _ => None,
        })
    }
}

/// Returns whether values of the trait object are functions. Only the traits `Fn`, `FnMut` and `FnOnce` have arguments
/// in parentheses, so the parentheses identify these traits.
pub(crate) fn is_function(object: &TypeTraitObject) -> bool {
    object.bounds.iter().any(|bound| match bound {
        TypeParamBound::Trait(bound) => bound
            .path
            .segments
            .last()
            .is_some_and(|last| matches!(last.arguments, PathArguments::Parenthesized(_))),
        _ => false,
    })
}

/// Returns the type of a field and all types that it contains, except the arguments of functions. Each type comes
/// before the types that it contains.
pub(crate) fn held(ty: &Type) -> Vec<Held<'_>> {
    struct Walk<'ast> {
        found: Vec<Held<'ast>>,
        parent: Option<usize>,
    }
    impl<'ast> Visit<'ast> for Walk<'ast> {
        fn visit_type(&mut self, ty: &'ast Type) {
            let outer = self.parent;
            let is_unknown = matches!(ty, Type::Macro(_) | Type::Infer(_) | Type::Never(_));
            if outer.is_none() || !is_unknown {
                self.parent = Some(self.found.len());
                self.found.push(Held { ty, parent: outer });
            }
            if !matches!(
                ty,
                Type::FnPtr(_) | Type::TraitObject(_) | Type::ImplTrait(_)
            ) {
                visit::visit_type(self, ty);
            }
            self.parent = outer;
        }
    }
    let mut walk = Walk {
        found: Vec::new(),
        parent: None,
    };
    walk.visit_type(ty);
    walk.found
}

/// Returns the types that [`held`] finds.
pub(crate) fn held_types(ty: &Type) -> Vec<&Type> {
    held(ty).into_iter().map(|held| held.ty).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use syn::parse_quote;

    fn read(ty: &Type) -> Mentions {
        let generics: Generics = parse_quote!(<T, const N: usize>);
        let ident: Ident = parse_quote!(Node);
        Mentions::of(&spell_self(ty, &ident, &generics), &ident, &generics)
    }

    #[test]
    fn parameters_are_found_at_any_depth() {
        assert!(read(&parse_quote!(Vec<(usize, Box<T>)>)).parameters);
        assert!(read(&parse_quote!([f32; N])).parameters);
        assert!(!read(&parse_quote!(other::T)).parameters);
    }

    #[test]
    fn self_is_the_item() {
        assert!(read(&parse_quote!(Option<Box<Self>>)).itself);
        assert!(read(&parse_quote!(Vec<Node>)).itself);
        assert!(!read(&parse_quote!(other::Node)).itself);
    }

    #[test]
    fn arguments_of_functions_are_not_held() {
        assert_eq!(held_types(&parse_quote!(fn(&Tensor) -> Tensor)).len(), 1);
        assert_eq!(held_types(&parse_quote!(Vec<(usize, f32)>)).len(), 4);
    }
}
