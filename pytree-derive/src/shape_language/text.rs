//! The parts of the description of a shape, and where mistakes in its text are.

use std::ops::Range;

use proc_macro2::Span;
use pytree_base::dtype::ElementType;
use syn::LitStr;

use crate::attributes::roles::RolesText;

/// A parsed shape.
pub(crate) struct ShapeText {
    pub(crate) literal: LitStr,
    pub(super) text: String,
    pub(super) element: Element,
    pub(super) before: Vec<Axis>,
    pub(super) rest: Option<Rest>,
    pub(super) after: Vec<Axis>,
    /// The roles of the axes, if the user wrote them.
    pub(crate) roles: Option<RolesText>,
}

pub(super) enum Element {
    Any,
    Is(ElementType),
    Family(&'static str),
    Named(Word),
    /// A name whose dtype belongs to a family: `T: float`.
    Bounded(Word, &'static str),
}

pub(super) enum Axis {
    Any,
    Length(usize),
    Named(Word),
    Broadcast(Word),
    Computed(Sum),
}

pub(super) enum Rest {
    Any,
    Named(Word),
}

/// A name in the text of a shape, and the position of the name.
#[derive(Clone)]
pub(super) struct Word {
    pub(super) name: String,
    pub(super) range: Range<usize>,
}

/// A computed length, in postfix notation.
pub(super) struct Sum {
    pub(super) text: String,
    pub(super) steps: Vec<Step>,
}

pub(super) enum Step {
    Number(usize),
    Name(Word),
    Apply(char),
}

pub(super) fn error(
    literal: &LitStr,
    text: &str,
    range: &Range<usize>,
    message: &str,
) -> syn::Error {
    syn::Error::new(span(literal, range), marked(text, range, message))
}

/// Returns the message with the text below it, and a mark below the characters of the range.
pub(super) fn marked(text: &str, range: &Range<usize>, message: &str) -> String {
    let before = text.get(..range.start).unwrap_or_default().chars().count();
    let marked = text.get(range.clone()).unwrap_or_default().chars().count();
    let marks = "^".repeat(marked.max(1));
    format!("{message}\n\n    {text}\n    {}{marks}", " ".repeat(before))
}

/// Returns the span of a range of the text if the compiler has spans inside of a literal, which only unstable compilers
/// do. Otherwise returns the span of the whole literal.
pub(super) fn span(literal: &LitStr, range: &Range<usize>) -> Span {
    let token = literal.token();
    let is_plain = token.to_string().len() == literal.value().len() + 2;
    let inside = is_plain.then(|| token.subspan(range.start + 1..=range.end.max(range.start + 1)));
    inside.flatten().unwrap_or_else(|| literal.span())
}
