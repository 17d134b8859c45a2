//! Parses the descriptions of shapes, such as `f32[batch heads*head_dim]`, and generates their patterns.
//!
//! ```text
//! shape   = axis*  |  dtype "[" axis* "]"          axes are separated by spaces
//! dtype   = f32, i64, bool, …                      one dtype
//!         | float | int | number                   a family of dtypes
//!         | Name                                   a name with a capital letter: the same dtype everywhere
//!         | Name ":" family                        the same dtype everywhere, and one of the family
//! axis    = name | number | "_"                    one axis: of a named length, of this length, of any length
//!         | name "?"                               an axis of the named length, or of length 1
//!         | "..." | "*" name                       any number of axes; at most once in a shape
//!         | sum                                    a computed length
//! sum     = product (("+" | "-") product)*         without spaces
//! product = value (("*" | "/") value)*             `/` rounds down
//! value   = name | number | "(" sum ")"
//! ```

mod parser;
mod pattern;
mod text;

use std::ops::Range;

use proc_macro2::Span;
use syn::ext::IdentExt;
use syn::parse::Parser as _;
use syn::{Ident, LitStr};

use self::parser::Parser;
pub(crate) use self::text::ShapeText;
use self::text::{Axis, Element, Rest, Step, Word, error, marked, span};

/// The message about a wrong value of `stacked`.
pub(crate) const NO_STACKED_AXIS: &str = "expected the name of the leading axis by which the module is stacked: write `stacked = \"expert\"`";

/// How a name occurs in a shape.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// As an axis, which gives the name a length.
    Axis,
    /// Inside of a computed length, which needs the length of the name.
    Computed,
}

/// A name that occurs in a shape.
pub(crate) struct Name {
    /// The key of the name: `*name` for several axes, `T[]` for a dtype, and otherwise the name itself.
    pub(crate) key: String,
    pub(crate) used: Use,
    range: Range<usize>,
}

impl ShapeText {
    /// Parses the text of a literal.
    pub(crate) fn parse(literal: &LitStr) -> syn::Result<Self> {
        Parser::new(literal).shape()
    }

    /// Parses the names of the axes by which a module is stacked. `expert` is the shape `expert ...` of all its arrays.
    pub(crate) fn parse_stacked(literal: &LitStr) -> syn::Result<Self> {
        let text = literal.value();
        let axes: Vec<&str> = text.split_whitespace().collect();
        let is_name = |axis: &&str| Ident::parse_any.parse_str(axis).is_ok();
        if axes.is_empty() || !axes.iter().all(is_name) {
            return Err(syn::Error::new(literal.span(), NO_STACKED_AXIS));
        }
        let text = format!("{} ...", axes.join(" "));
        Self::parse(&LitStr::new(&text, literal.span()))
    }

    /// Returns the number of axes in the text. `...` and `*name` count as one.
    pub(crate) fn num_axes(&self) -> usize {
        self.before.len() + self.after.len() + usize::from(self.rest.is_some())
    }

    /// Returns all names of the shape.
    pub(crate) fn names(&self) -> Vec<Name> {
        let named = |key: String, used, word: &Word| Name {
            key,
            used,
            range: word.range.clone(),
        };
        let mut names = Vec::new();
        if let Element::Named(word) | Element::Bounded(word, _) = &self.element {
            names.push(named(format!("{}[]", word.name), Use::Axis, word));
        }
        if let Some(Rest::Named(word)) = &self.rest {
            names.push(named(format!("*{}", word.name), Use::Axis, word));
        }
        for axis in self.before.iter().chain(&self.after) {
            match axis {
                Axis::Named(word) | Axis::Broadcast(word) => {
                    names.push(named(word.name.clone(), Use::Axis, word));
                }
                Axis::Computed(sum) => {
                    for step in &sum.steps {
                        if let Step::Name(word) = step {
                            names.push(named(word.name.clone(), Use::Computed, word));
                        }
                    }
                }
                Axis::Any | Axis::Length(_) => {}
            }
        }
        names
    }

    /// Returns the shape as it is displayed, with brackets.
    pub(crate) fn displayed(&self) -> String {
        if self.text.contains('[') {
            self.text.clone()
        } else {
            format!("[{}]", self.text)
        }
    }

    /// Returns an error with the span of a name of the shape.
    pub(crate) fn error_at(&self, name: &Name, message: &str) -> syn::Error {
        error(&self.literal, &self.text, &name.range, message)
    }

    /// Returns the message for a name, which shows the place of the name in the text.
    pub(crate) fn message_at(&self, name: &Name, message: &str) -> String {
        marked(&self.text, &name.range, message)
    }

    /// Returns the span of a name, or of the whole text where the compiler has no spans inside of a literal.
    pub(crate) fn span_of(&self, name: &Name) -> Span {
        span(&self.literal, &name.range)
    }
}

/// Encodes a name as a number: its bytes, or a hash of them if there are more than 16.
pub(crate) fn encoded(name: &str) -> u128 {
    let bytes = name.as_bytes();
    if bytes.len() <= 16 {
        return bytes
            .iter()
            .fold(0, |number, &byte| number << 8 | u128::from(byte));
    }
    // FNV-1a: http://www.isthe.com/chongo/tech/comp/fnv.
    bytes.iter().fold(
        0x6c62_272e_07bb_0142_62b8_2175_6295_c58d,
        |hash: u128, &byte| {
            (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
        },
    )
}
