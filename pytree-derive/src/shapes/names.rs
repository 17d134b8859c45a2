//! The names in the shapes of a function: each must be an argument, and each length that is needed must be known.

use std::cell::RefCell;

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::{Ident, ReturnType, Type};

use super::arguments::Arguments;
use crate::errors::{Errors, did_you_mean, did_you_mean_axis};
use crate::paths::Root;
use crate::shape_language::{Name, Use, encoded};
use crate::types::is_integer;

/// Returns the word with an upper-case first letter.
fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).collect()
}

impl Called<'_> {
    pub(super) fn check_parameter(&self, name: &Ident, errors: &mut Errors) {
        if self.parameters.iter().any(|(known, _)| known == name) {
            return;
        }
        if name == "self" {
            let message = "the axes of `self` are those of its fields: write them there, such as `#[param(\"in out\")]`";
            return errors.push(name, message);
        }
        let known: Vec<String> = self
            .parameters
            .iter()
            .map(|(name, _)| name.to_string())
            .collect();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        let message = if known.is_empty() {
            format!("there is no argument `{name}`: the function has none")
        } else {
            let all: Vec<&str> = known.iter().copied().chain(["return"]).collect();
            let hint = did_you_mean(&name.to_string(), &all);
            format!(
                "there is no argument `{name}`: expected `{}`, or `return`{hint}",
                known.join("`, `")
            )
        };
        errors.push(name, message);
    }

    /// Returns the integer parameters whose names occur in a shape. The shape uses the value of the parameter as a
    /// length.
    pub(super) fn numbers<'s>(&'s self, arguments: &Arguments) -> impl Iterator<Item = &'s Ident> {
        let mut shapes = Vec::new();
        for (_, of_input) in &arguments.inputs {
            of_input.all(&mut shapes);
        }
        if let Some((_, output)) = &arguments.output {
            output.all(&mut shapes);
        }
        let used: Vec<String> = shapes
            .iter()
            .flat_map(|shape| shape.names())
            .map(|name| name.key)
            .collect();
        let numbers = self.parameters.iter().filter(move |(name, ty)| {
            ty.as_ref().is_some_and(is_integer) && used.contains(&name.unraw().to_string())
        });
        numbers.map(|(name, _)| name)
    }

    /// Checks that each name of a computed length, and each name of the result, has a length. Some names can have a
    /// length only in the fields of `Self`. Returns the code that checks these names.
    pub(super) fn check_names(&self, arguments: &Arguments, errors: &mut Errors) -> TokenStream {
        let root = &self.root;
        let mut inputs = Vec::new();
        for (_, shapes) in &arguments.inputs {
            shapes.all(&mut inputs);
        }
        let mut outputs = Vec::new();
        if let Some((_, shapes)) = &arguments.output {
            shapes.all(&mut outputs);
        }
        let axes = inputs.iter().flat_map(|shape| shape.names());
        let axes = axes
            .filter(|name| name.used == Use::Axis)
            .map(|name| name.key);
        let numbers = self.numbers(arguments).map(|name| name.unraw().to_string());
        let bound: Vec<String> = axes.chain(numbers).collect();
        let needed = inputs
            .iter()
            .flat_map(|shape| shape.names().into_iter().map(move |name| (*shape, name)))
            .filter(|(_, name)| name.used == Use::Computed)
            .chain(
                outputs
                    .iter()
                    .flat_map(|shape| shape.names().into_iter().map(move |name| (*shape, name))),
            );
        let mut code = TokenStream::new();
        let mut seen = Vec::new();
        for (shape, name) in needed {
            if bound.contains(&name.key) || seen.contains(&name.key) {
                continue;
            }
            seen.push(name.key.clone());
            let known: Vec<&str> = bound.iter().map(String::as_str).collect();
            let hint = did_you_mean_axis(&name.key, &known);
            let message = format!("{}{hint}", self.unbound(&name));
            if self.receiver.is_none() {
                errors.add(shape.error_at(&name, &message));
                continue;
            }
            let message = shape.message_at(&name, &message);
            let span = shape.span_of(&name).resolved_at(Span::call_site());
            let encoded = encoded(&name.key);
            // rustc lists traits of the same name that the type implements: the trait of this name is not one of them.
            let words: String = name
                .key
                .split(|letter: char| !letter.is_alphanumeric())
                .map(capitalized)
                .collect();
            let (trait_, function) = (format_ident!("Known{words}"), format_ident!("known"));
            let call = quote_spanned!(span=> #function::<Self>(););
            code.extend(quote! {{
                #[diagnostic::on_unimplemented(message = #message, label = "this name has no length")]
                trait #trait_ {}
                #[diagnostic::do_not_recommend]
                impl<__T: #root::axes::BindsAxis<#encoded> + ?::core::marker::Sized> #trait_ for __T {}
                fn #function<__T: #trait_ + ?::core::marker::Sized>() {}
                #call
            }});
        }
        code
    }

    /// Returns the message for a name that has no length.
    fn unbound(&self, name: &Name) -> String {
        let key = &name.key;
        let fields = if self.receiver.is_some() {
            format!(
                ", or of a field, such as `#[param(\"{key}\")]`, or a static field `#[r#static] {key}: usize`"
            )
        } else {
            format!(", or an argument `{key}: usize`")
        };
        if let Some(dtype) = key.strip_suffix("[]") {
            return format!(
                "the dtype `{dtype}` is known from no argument{}: write it in the shape of one",
                if self.receiver.is_some() {
                    " and from no field"
                } else {
                    ""
                }
            );
        }
        match name.used {
            Use::Computed => format!(
                "`{key}` has no length: it occurs only in a computed length, and `{key}` cannot be found from the result of a computation; make it an axis of an argument{fields}"
            ),
            Use::Axis => format!(
                "`{key}` has no length: nothing binds it before the result; make it an axis of an argument{fields}, or write `_`"
            ),
        }
    }
}

/// The properties of a function or closure that the generated code needs.
pub(super) struct Called<'a> {
    /// The path of the library's items, and its name in the generated code.
    pub(super) path: Root,
    pub(super) root: Root,
    /// The patterns of the shapes.
    pub(super) table: RefCell<Vec<TokenStream>>,
    /// The name in messages.
    pub(super) name: String,
    /// The span for the panic about a wrong result.
    pub(super) span: Span,
    /// The names that the parameters bind, with their types where these are written.
    pub(super) parameters: Vec<(Ident, Option<Type>)>,
    /// A reference to `self`, if the function has a receiver.
    pub(super) receiver: Option<TokenStream>,
    pub(super) output: &'a ReturnType,
    /// Whether the user wrote `#[track_caller]` on the function.
    pub(super) is_tracked: bool,
    /// Whether the function is a closure. A closure without a written output type may still return a value.
    pub(super) is_closure: bool,
}
