//! The layout of text with optional line breaks. Jaxprs are displayed in this layout.
//!
//! A group is written on the current line if it fits on the rest of this line. Otherwise, each break of the group ends
//! a line, and the groups inside are treated in the same way (Wadler, "A prettier printer", 2003). Texts and tokens are
//! stored in sequence (Oppen, "Prettyprinting", 1980), so a long jaxpr needs no tree of small allocations.

use std::fmt::{Display, Write as _};

use pytree_base::lists::Tuple;
use pytree_kernels::base::dtype::AbstractArray;

/// A text with possible line breaks. [`format`](Self::format) decides which breaks end a line.
#[derive(Default)]
pub(crate) struct TextLayout {
    /// All texts, in sequence.
    text: String,
    tokens: Vec<Token>,
}

#[derive(Clone, Copy)]
enum Token {
    /// The text from the end of the previous text token up to this position, in bytes.
    TextUpTo(usize),
    /// A possible line break. If the group of the break is on one line, this text replaces the break.
    Break(&'static str),
    /// Indents the following lines by two more spaces.
    Nest,
    EndNest,
    /// Begins a group. The tokens of a group are written on one line if they fit.
    Group,
    EndGroup,
}

impl TextLayout {
    pub(crate) fn text(&mut self, text: impl Display) {
        // Writing to a string does not fail.
        let _ = write!(self.text, "{text}");
        match self.tokens.last_mut() {
            Some(Token::TextUpTo(end)) => *end = self.text.len(),
            _ => self.tokens.push(Token::TextUpTo(self.text.len())),
        }
    }

    pub(crate) fn line_break(&mut self, on_one_line: &'static str) {
        self.tokens.push(Token::Break(on_one_line));
    }

    pub(crate) fn nest(&mut self, inner: impl FnOnce(&mut Self)) {
        self.tokens.push(Token::Nest);
        inner(self);
        self.tokens.push(Token::EndNest);
    }

    pub(crate) fn group(&mut self, inner: impl FnOnce(&mut Self)) {
        self.tokens.push(Token::Group);
        inner(self);
        self.tokens.push(Token::EndGroup);
    }

    /// Writes items with a possible line break between neighbours. If the items are on one line, `separator` replaces
    /// the break.
    pub(crate) fn joined<I: IntoIterator>(
        &mut self,
        separator: &'static str,
        items: I,
        mut item: impl FnMut(&mut Self, I::Item),
    ) {
        for (position, each) in items.into_iter().enumerate() {
            if position > 0 {
                self.line_break(separator);
            }
            item(self, each);
        }
    }

    /// Writes items on as few lines as possible.
    pub(crate) fn filled<I: IntoIterator>(
        &mut self,
        separator: &'static str,
        items: I,
        mut item: impl FnMut(&mut Self, I::Item),
    ) {
        self.nest(|layout| {
            layout.group(|layout| {
                for (position, each) in items.into_iter().enumerate() {
                    if position > 0 {
                        layout.text(separator);
                        layout.group(|layout| layout.line_break(" "));
                    }
                    item(layout, each);
                }
            });
        });
    }

    /// Writes content in brackets. If the content does not fit on one line, each bracket is on its own line.
    pub(crate) fn bracketed(
        &mut self,
        [open, close]: [&'static str; 2],
        inner: impl FnOnce(&mut Self),
    ) {
        self.group(|layout| {
            layout.nest(|layout| {
                layout.text(open);
                layout.line_break("");
                inner(layout);
            });
            layout.line_break("");
            layout.text(close);
        });
    }

    /// Returns the text with lines of at most `width` characters where possible.
    pub(crate) fn format(&self, width: usize) -> String {
        let mut lines = String::with_capacity(self.text.len() + self.tokens.len());
        let (mut start, mut column, mut indent) = (0, 0, 0);
        // For each open group, whether it is written on one line.
        let mut flat = vec![false];
        for (position, &token) in self.tokens.iter().enumerate() {
            let is_flat = flat.last().copied().unwrap_or(false);
            match token {
                Token::TextUpTo(end) => {
                    let text = &self.text[start..end];
                    lines.push_str(text);
                    column += text.chars().count();
                    start = end;
                }
                Token::Break(text) if is_flat => {
                    lines.push_str(text);
                    column += text.len();
                }
                Token::Break(_) => {
                    lines.push('\n');
                    lines.extend(std::iter::repeat_n(' ', indent));
                    column = indent;
                }
                Token::Nest => indent += 2,
                Token::EndNest => indent -= 2,
                Token::Group => {
                    let left = width.saturating_sub(column);
                    flat.push(is_flat || self.fits(position + 1, start, left));
                }
                Token::EndGroup => {
                    flat.pop();
                }
            }
        }
        lines
    }

    /// Returns whether a group fits into `width` characters. The group's tokens begin at `first`, and its text begins
    /// at `start`.
    fn fits(&self, first: usize, mut start: usize, mut width: usize) -> bool {
        let mut depth = 0_usize;
        for &token in &self.tokens[first..] {
            let length = match token {
                Token::TextUpTo(end) => {
                    let text = &self.text[start..end];
                    start = end;
                    text.chars().count()
                }
                Token::Break(text) => text.len(),
                Token::EndGroup if depth == 0 => return true,
                Token::Group => {
                    depth += 1;
                    0
                }
                Token::EndGroup => {
                    depth -= 1;
                    0
                }
                Token::Nest | Token::EndNest => 0,
            };
            match width.checked_sub(length) {
                Some(left) => width = left,
                None => return false,
            }
        }
        true
    }
}

/// Displays the padding of all axes as jaxprs write it, for instance `((0, 1), (2, 2))`.
pub(crate) fn pairs_tuple(pairs: &[(isize, isize)]) -> impl Display {
    Tuple(pairs.iter().map(|(low, high)| format!("({low}, {high})")))
}

/// Returns the display of an abstract array with its article, for instance `an f32[6]`, for messages.
pub(crate) fn with_article(info: &AbstractArray) -> String {
    let text = info.to_string();
    // The letters f and i are spoken with a vowel at the beginning: "an eff 32".
    let article = if text.starts_with(['f', 'i']) {
        "an"
    } else {
        "a"
    };
    format!("{article} {text}")
}

#[cfg(test)]
mod tests {
    use pytree_kernels::base::dtype::DType;

    use super::*;

    #[test]
    fn article_is_that_of_spoken_dtype() {
        let text = |dtype| with_article(&AbstractArray::new(dtype, [6]));
        assert_eq!(text(DType::F32), "an f32[6]");
        assert_eq!(text(DType::I64), "an i64[6]");
        for dtype in [DType::U8, DType::BF16, DType::Bool] {
            assert_eq!(text(dtype), format!("a {dtype}[6]"));
        }
    }
}
