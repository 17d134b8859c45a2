//! The arguments of `#[shapes(…)]` and `shaped!(…)`: the shapes of each argument and of the result.

use std::cell::RefCell;

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::{Ident, LitStr, Path, Token, token};

use crate::paths::Root;
use crate::shape_language::ShapeText;

/// The shapes of a value: one for all its arrays, or one for each element of a tuple.
pub(super) enum Shapes {
    One(Box<ShapeText>),
    /// `_`: not compared.
    Unchecked,
    Tuple(Vec<Shapes>),
}

impl Parse for Shapes {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        if input.peek(token::Paren) {
            let inner;
            syn::parenthesized!(inner in input);
            let elements = inner.parse_terminated(Self::parse, Token![,])?;
            return Ok(Self::Tuple(elements.into_iter().collect()));
        }
        if input.parse::<Option<Token![_]>>()?.is_some() {
            return Ok(Self::Unchecked);
        }
        let literal: LitStr = input.parse().map_err(|error| {
            let message =
                "expected a shape in quotes, such as `\"batch in\"`, a tuple of shapes, or `_`";
            syn::Error::new(error.span(), message)
        })?;
        Ok(Self::One(Box::new(ShapeText::parse(&literal)?)))
    }
}

impl Shapes {
    pub(super) fn all<'s>(&'s self, found: &mut Vec<&'s ShapeText>) {
        match self {
            Self::One(shape) => found.push(shape),
            Self::Unchecked => {}
            Self::Tuple(elements) => elements.iter().for_each(|element| element.all(found)),
        }
    }

    /// Returns the shapes as they are displayed: `([batch in], [batch])`.
    pub(super) fn displayed(&self) -> String {
        match self {
            Self::One(shape) => shape.displayed(),
            Self::Unchecked => "_".to_owned(),
            Self::Tuple(elements) => {
                let elements: Vec<String> = elements.iter().map(Self::displayed).collect();
                format!("({})", elements.join(", "))
            }
        }
    }

    /// Generates the comparison of the value `value`, a place expression, and adds the patterns to the table `__SHAPES`.
    /// `references` is the number of references around the value, if its type is written.
    pub(super) fn compare(
        &self,
        root: &Root,
        table: &RefCell<Vec<TokenStream>>,
        label: &str,
        value: &TokenStream,
        references: Option<usize>,
    ) -> TokenStream {
        match self {
            Self::One(shape) => {
                let mut table = table.borrow_mut();
                let position = table.len();
                table.push(shape.pattern(root, label));
                let span = shape.literal.span().resolved_at(Span::call_site());
                // If the number of references is unknown, the code calls a method, which dereferences any number of
                // them. If the number is known, the code calls a function, because the compiler's error for this call
                // names the type that has no shapes.
                let Some(count) = references else {
                    return quote_spanned! {span=>
                        #value.__compare_axes(__scope, &__SHAPES[#position]);
                    };
                };
                let stars = std::iter::repeat_n(quote!(*), count);
                quote_spanned! {span=>
                    #root::axes::Scope::value(__scope, &__SHAPES[#position], &#(#stars)*#value);
                }
            }
            Self::Unchecked => TokenStream::new(),
            Self::Tuple(elements) => {
                let elements = elements.iter().enumerate().map(|(position, element)| {
                    let index = syn::Index::from(position);
                    let label = format!("{label}.{position}");
                    element.compare(root, table, &label, &quote!(#value.#index), None)
                });
                quote!(#(#elements)*)
            }
        }
    }
}

/// The arguments of `#[shapes(…)]`.
#[derive(Default)]
pub(super) struct Arguments {
    /// The shapes of arguments, by name.
    pub(super) inputs: Vec<(Ident, Shapes)>,
    pub(super) output: Option<(Span, Shapes)>,
    pub(super) renamed: Option<Path>,
}

impl Arguments {
    /// Parses `name = shapes` once, or `crate = path`.
    pub(super) fn parse_one(&mut self, input: ParseStream<'_>) -> syn::Result<()> {
        let name = input.call(Ident::parse_any).map_err(|error| {
            let message = "expected the name of an argument, or `return`: write `x = \"batch in\"`";
            syn::Error::new(error.span(), message)
        })?;
        input.parse::<Token![=]>().map_err(|error| {
            let message = format!("expected `=` and a shape: write `{name} = \"batch in\"`");
            syn::Error::new(error.span(), message)
        })?;
        if name == "crate" {
            self.renamed = Some(input.call(Path::parse_mod_style)?);
            return Ok(());
        }
        let shapes = input.parse()?;
        let is_known = if name == "return" {
            self.output.replace((name.span(), shapes)).is_some()
        } else {
            let is_known = self.inputs.iter().any(|(known, _)| *known == name);
            self.inputs.push((name.clone(), shapes));
            is_known
        };
        if is_known {
            let message = format!("`{name}` is written twice: remove one");
            return Err(syn::Error::new(name.span(), message));
        }
        Ok(())
    }
}

impl Parse for Arguments {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut arguments = Self::default();
        while !input.is_empty() {
            arguments.parse_one(input)?;
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(arguments)
    }
}
