//! Reads the text of a shape from left to right.

use std::ops::Range;

use pytree_base::dtype::ElementType;
use syn::LitStr;

use super::text::{Axis, Element, Rest, ShapeText, Step, Sum, Word, error};
use crate::errors::did_you_mean;

/// The greatest number of values that the evaluation of a computed length holds at a time, as in `pytree-core`.
const VALUES: usize = 16;

const FAMILIES: [(&str, &str); 3] = [("float", "Float"), ("int", "Integer"), ("number", "Number")];

/// Reads a text from left to right.
pub(super) struct Parser<'a> {
    literal: &'a LitStr,
    text: String,
    at: usize,
}

impl<'a> Parser<'a> {
    pub(super) fn new(literal: &'a LitStr) -> Self {
        Self {
            literal,
            text: literal.value(),
            at: 0,
        }
    }

    fn next(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn eat(&mut self, expected: char) -> bool {
        let is_next = self.next() == Some(expected);
        if is_next {
            self.at += expected.len_utf8();
        }
        is_next
    }

    fn skip_spaces(&mut self) {
        while self.next().is_some_and(char::is_whitespace) {
            self.at += self.next().map_or(0, char::len_utf8);
        }
    }

    /// Returns an error at the next character.
    fn unexpected(&self, expected: &str) -> syn::Error {
        let found = match self.next() {
            None => "the end of the text".to_owned(),
            Some(',') => {
                return self.error(
                    self.at..self.at + 1,
                    "axes are separated by spaces: write `in out`",
                );
            }
            Some('#') => {
                return self.error(
                    self.at..self.at + 1,
                    "an axis that may have length 1 has a `?` after its name: write `in?`",
                );
            }
            Some(character) => format!("`{character}`"),
        };
        let end = self.at + self.next().map_or(0, char::len_utf8);
        self.error(self.at..end, &format!("expected {expected}, found {found}"))
    }

    fn error(&self, range: Range<usize>, message: &str) -> syn::Error {
        error(self.literal, &self.text, &range, message)
    }

    fn word(&mut self) -> Option<Word> {
        let rest = &self.text[self.at..];
        let length = rest
            .char_indices()
            .take_while(|(position, character)| {
                *character == '_'
                    || character.is_alphabetic()
                    || (*position > 0 && character.is_alphanumeric())
            })
            .last()
            .map(|(position, character)| position + character.len_utf8())?;
        let range = self.at..self.at + length;
        self.at = range.end;
        Some(Word {
            name: self.text[range.clone()].to_owned(),
            range,
        })
    }

    pub(super) fn shape(mut self) -> syn::Result<ShapeText> {
        self.skip_spaces();
        let element = if self.text.contains('[') {
            Some(self.element()?)
        } else {
            None
        };
        let (mut before, mut rest, mut after) = (Vec::new(), None, Vec::new());
        loop {
            self.skip_spaces();
            let start = self.at;
            match self.next() {
                None if element.is_some() => return Err(self.unexpected("an axis or `]`")),
                None => break,
                Some(']') if element.is_some() => {
                    self.at += 1;
                    self.skip_spaces();
                    if self.next().is_some() {
                        return Err(self.unexpected("the end of the text after `]`"));
                    }
                    break;
                }
                Some('.' | '*') => {
                    let found = self.rest()?;
                    if rest.is_some() {
                        let message = "a shape has `...` or `*name` at most once: otherwise it would not be clear \
                                       which axes belong to which; write `_` for one axis of any length";
                        return Err(self.error(start..self.at, message));
                    }
                    rest = Some(found);
                }
                Some(_) => {
                    let axis = self.axis()?;
                    if rest.is_some() {
                        after.push(axis);
                    } else {
                        before.push(axis);
                    }
                }
            }
            let is_end = |next: Option<char>| {
                next.is_none_or(|next| next.is_whitespace() || (next == ']' && element.is_some()))
            };
            if !is_end(self.next()) {
                return Err(self.unexpected("a space between two axes"));
            }
        }
        Ok(ShapeText {
            literal: self.literal.clone(),
            text: self.text,
            element: element.unwrap_or(Element::Any),
            before,
            rest,
            after,
            roles: None,
        })
    }

    fn element(&mut self) -> syn::Result<Element> {
        let Some(word) = self.word() else {
            let message = "expected a dtype before `[`, such as `f32[batch in]`; without a dtype, write no brackets: `batch in`";
            return Err(self.error(self.at..self.at + 1, message));
        };
        let family_of = |word: &Word| {
            let found = FAMILIES.iter().find(|(name, _)| *name == word.name);
            found.map(|(_, variant)| *variant)
        };
        let is_name = word.name.starts_with(char::is_uppercase);
        if is_name && self.eat(':') {
            self.skip_spaces();
            let start = self.at;
            let family = self.word().and_then(|family| family_of(&family));
            let Some(family) = family else {
                let message = format!(
                    "expected a family of dtypes after `{}:`, which is `float`, `int` or `number`",
                    word.name
                );
                return Err(self.error(start..self.at, &message));
            };
            self.open()?;
            return Ok(Element::Bounded(word, family));
        }
        self.open()?;
        if let Some(dtype) = ElementType::from_name(&word.name) {
            return Ok(Element::Is(dtype));
        }
        if let Some(family) = family_of(&word) {
            return Ok(Element::Family(family));
        }
        let dtypes = ElementType::ALL.iter().map(|dtype| dtype.name());
        let families = FAMILIES.iter().map(|(name, _)| *name);
        let names: Vec<&str> = dtypes.chain(families).collect();
        let foreign = of_other_library(&word.name, &names);
        if foreign.is_none() && is_name {
            return Ok(Element::Named(word));
        }
        let hint = foreign.map_or_else(
            || did_you_mean(&word.name, &names),
            |name| format!("; did you mean `{name}`?"),
        );
        let message = format!(
            "unknown dtype `{}`: expected a dtype such as `f32`, a family (`float`, `int`, `number`), or a name that begins with a capital letter, such as `T`{hint}",
            word.name
        );
        Err(self.error(word.range, &message))
    }

    /// Reads the bracket after the dtype.
    fn open(&mut self) -> syn::Result<()> {
        if self.eat('[') {
            return Ok(());
        }
        Err(self.unexpected("`[` after the dtype, such as `f32[batch in]`"))
    }

    /// Reads `...` or `*name`.
    fn rest(&mut self) -> syn::Result<Rest> {
        let start = self.at;
        if self.eat('*') {
            return match self.word() {
                Some(word) => Ok(Rest::Named(word)),
                None => Err(self.error(
                    start..start + 1,
                    "expected a name after `*`, such as `*batch`; write a product without spaces: `heads*head_dim`",
                )),
            };
        }
        if self.text[start..].starts_with("...") {
            self.at += 3;
            return Ok(Rest::Any);
        }
        let dots = self.text[start..]
            .chars()
            .take_while(|&next| next == '.')
            .count();
        Err(self.error(start..start + dots, "any number of axes is written `...`"))
    }

    fn axis(&mut self) -> syn::Result<Axis> {
        let start = self.at;
        let mut steps = Vec::new();
        self.sum(&mut steps)?;
        let text = self.text[start..self.at].to_owned();
        if text == "_" {
            return Ok(Axis::Any);
        }
        if self.eat('?') {
            return match &steps[..] {
                [Step::Name(word)] => Ok(Axis::Broadcast(word.clone())),
                _ => Err(self.error(
                    start..self.at,
                    "only a name can have a `?`, which allows the length 1",
                )),
            };
        }
        match &steps[..] {
            [Step::Name(word)] if text == word.name => return Ok(Axis::Named(word.clone())),
            [Step::Number(number)] => return Ok(Axis::Length(*number)),
            _ => {}
        }
        let mut held = 0_usize;
        let mut most = 0;
        for step in &steps {
            held = match step {
                Step::Apply(_) => held - 1,
                Step::Number(_) | Step::Name(_) => held + 1,
            };
            most = most.max(held);
            if let Step::Name(word) = step
                && word.name == "_"
            {
                let message = "`_` is an axis of any length, so nothing can be computed from it; give it a name";
                return Err(self.error(word.range.clone(), message));
            }
        }
        if most > VALUES {
            let message = "this computed length has too many parentheses; compute a part of it in a static field";
            return Err(self.error(start..self.at, message));
        }
        Ok(Axis::Computed(Sum { text, steps }))
    }

    fn sum(&mut self, steps: &mut Vec<Step>) -> syn::Result<()> {
        self.chain(steps, ['+', '-'], Self::product)
    }

    fn product(&mut self, steps: &mut Vec<Step>) -> syn::Result<()> {
        self.chain(steps, ['*', '/'], Self::value)
    }

    /// Reads operands, which `part` reads, and the operators between the operands.
    fn chain(
        &mut self,
        steps: &mut Vec<Step>,
        operators: [char; 2],
        part: fn(&mut Self, &mut Vec<Step>) -> syn::Result<()>,
    ) -> syn::Result<()> {
        part(self, steps)?;
        while let Some(operator) = self.next().filter(|next| operators.contains(next)) {
            self.at += 1;
            part(self, steps)?;
            steps.push(Step::Apply(operator));
        }
        Ok(())
    }

    fn value(&mut self, steps: &mut Vec<Step>) -> syn::Result<()> {
        let start = self.at;
        if self.eat('(') {
            self.sum(steps)?;
            return if self.eat(')') {
                Ok(())
            } else {
                Err(self.unexpected("`)`, and no spaces in a computed length"))
            };
        }
        let digits = self.text[start..]
            .chars()
            .take_while(char::is_ascii_digit)
            .count();
        if digits > 0 {
            self.at += digits;
            if let Some(word) = self.word() {
                let message =
                    "a name does not begin with a digit; write a product with `*`: `2*hidden`";
                return Err(self.error(start..word.range.end, message));
            }
            let number = self.text[start..self.at].parse().map_err(|_| {
                self.error(
                    start..self.at,
                    "this number is too large for the length of an axis",
                )
            })?;
            steps.push(Step::Number(number));
            return Ok(());
        }
        match self.word() {
            Some(word) => steps.push(Step::Name(word)),
            None if start == 0 || self.text[..start].ends_with([' ', '[']) => {
                return Err(self.unexpected("an axis: a name, a number, `_`, `...` or `*name`"));
            }
            None => {
                return Err(
                    self.unexpected("a name or a number, and no spaces in a computed length")
                );
            }
        }
        Ok(())
    }
}

/// Returns the dtype that other libraries or the type `DType` write differently: `float32` and `F32` are `f32`.
fn of_other_library<'n>(word: &str, names: &[&'n str]) -> Option<&'n str> {
    let lower = word.to_lowercase();
    let short = [("uint", "u"), ("int", "i"), ("float", "f")];
    let short = short.iter().find_map(|(long, short)| {
        let bits = lower.strip_prefix(long)?;
        (!bits.is_empty()).then(|| format!("{short}{bits}"))
    });
    let known = short.unwrap_or(lower);
    names.iter().find(|name| **name == known).copied()
}
